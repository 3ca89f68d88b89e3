"""The Java API that npm's @nativescript/types-android describes in TypeScript."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.android_apis.types import Class, Member, Type

MODULE = re.compile(r"(?:declare|export) module ([\w.]+) \{")
CLASS = re.compile(
    r"export (abstract )?class (\w+)(?:<[^{]*?>)?\s+(?:extends ([^{]*?)\s*)?(?:implements ([^{]*?)\s*)?\{"
)
METHOD = re.compile(r"public (static )?(\w+)\((.*)\)(?:: (.*))?;")
FIELD = re.compile(r"public (static )?(\w+): (.*);")
ARRAY = "androidNative.Array<"
PLAIN = ("number", "boolean", "string", "void", "any")


def read_types(path: Path) -> dict[str, Class]:
    """Return the classes of a file of declarations, by name."""
    reader = _TypesReader(path.name)
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            reader.take(line.strip(), number)
    return reader.classes


class _TypesReader:
    def __init__(self, file: str) -> None:
        self.classes: dict[str, Class] = {}
        self._file = file
        self._around: list[str] = []
        self._comment = ""
        self._skipping = False

    def take(self, line: str, number: int) -> None:
        if self._skipping:
            self._skipping = not line.startswith("});")
        elif line.startswith(("/**", "*")):
            self._comment = line if line.startswith("/**") else self._comment + line
        elif line.startswith("public constructor(implementation: {"):
            self._class().interface = True
            self._skipping = True
        else:
            self._declared(line, number)
            self._comment = ""

    def _declared(self, line: str, number: int) -> None:
        if line == "}":
            if self._around:
                self._around.pop()
        elif found := MODULE.match(line):
            self._around.append(found[1])
        elif found := CLASS.match(line):
            self._around.append(found[2])
            name = ".".join(self._around)
            self.classes[name] = Class(
                name,
                self._file,
                number,
                abstract=bool(found[1]),
                parent=_last(found[3] or "Object"),
                interfaces=tuple(_last(each) for each in _split(found[4] or "")),
                since=self._level("@since"),
            )
        elif line.startswith("public ") and ".".join(self._around) in self.classes:
            self._class().members.extend(self._members(line, number))

    def _members(self, line: str, number: int) -> list[Member]:
        since, deprecated = self._level("@since"), self._level("Deprecated in API")
        if found := METHOD.match(line):
            name = "<init>" if found[2] == "constructor" else found[2]
            parameters = tuple(_type(each.split(": ", 1)[1]) for each in _split(found[3]))
            result = _type(found[4] or "void")
            return [
                Member(
                    name,
                    number,
                    result,
                    parameters,
                    static=bool(found[1]),
                    since=since,
                    deprecated=deprecated,
                )
            ]
        if (found := FIELD.match(line)) and found[2] != "class":
            value = _value(found[3])
            kind = Type("string" if found[3][0] == '"' else "number") if value else _type(found[3])
            return [
                Member(
                    found[2],
                    number,
                    kind,
                    static=bool(found[1]),
                    value=value,
                    since=since,
                    deprecated=deprecated,
                )
            ]
        return []

    def _class(self) -> Class:
        return self.classes[".".join(self._around)]

    def _level(self, word: str) -> int:
        found = re.search(rf"{word} (\d+)", self._comment)
        return int(found[1]) if found else 0


def _value(text: str) -> str | None:
    return text if re.fullmatch(r'-?\d+|".*"', text) else None


def _type(text: str) -> Type:
    name, *null = text.split(" | ")
    arrays = 0
    while name.startswith(ARRAY):
        name, arrays = name[len(ARRAY) : -1], arrays + 1
    return Type(name if name in PLAIN else _last(name), bool(null), arrays)


def _last(name: str) -> str:
    return re.sub(r"<.*", "", name).split(".")[-1].strip()


def _split(text: str) -> list[str]:
    """Return what commas outside <> separate."""
    found, depth, start = [], 0, 0
    for i, character in enumerate(text + ","):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            found.append(text[start:i].strip())
            start = i + 1
    return [each for each in found if each]
