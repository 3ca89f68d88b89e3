"""The classes that Java sources declare for others: our stubs, which use no more of Java than this reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from scripts.android_apis.tokens import Token, closing, joined, parts, tokens
from scripts.android_apis.types import ANY, Class, Member, Type

MODIFIERS = {"public", "protected", "private", "static", "final", "abstract", "synchronized"}
NUMBERS = {"byte", "short", "int", "long", "float", "double", "Integer", "Long"}
NAMES = {
    **dict.fromkeys(NUMBERS - {"Integer", "Long"}, "number"),
    **{"boolean": "boolean", "void": "void", "String": "string", "CharSequence": "string", "Object": ANY},
}
KINDS = ("class", "interface", "enum")


def read_stubs(folder: Path) -> dict[str, Class]:
    """Return the public classes of the Java sources below a folder, but for stand-ins, by name."""
    found: dict[str, Class] = {}
    for path in sorted(folder.rglob("*.java")):
        if not path.name.startswith("StandIn"):
            found |= read_java(path.read_text("utf-8"), path.relative_to(folder).as_posix())
    return found


def read_java(text: str, file: str) -> dict[str, Class]:
    """Return the public classes of a source, by name."""
    source = tokens(text)
    package = joined(source[1 : next(i for i, each in enumerate(source) if each.text == ";")])
    reader = _JavaReader(source, file)
    reader.members(Class(package, file, 1, interface=False), len(package.split(".")), 0, len(source))
    return reader.classes


class _JavaReader:
    def __init__(self, source: Sequence[Token], file: str) -> None:
        self.classes: dict[str, Class] = {}
        self._source = source
        self._file = file
        self._variables: set[str] = set()

    def members(self, outer: Class, package: int, i: int, end: int) -> None:
        while i < end:
            if self._text(i) in ("package", "import"):
                i = self._past(i, ";")
                continue
            start = i
            i, annotations, modifiers = self._head(i)
            if self._text(i) in KINDS:
                i = self._class(outer, modifiers, i, "@" in self._text(i - 1))
            elif i < end:
                i = self._member(outer, annotations, modifiers, i, end)
            i = max(i, start + 1)

    def _class(self, outer: Class, modifiers: set[str], i: int, annotation: bool) -> int:
        kind, line, name = self._text(i), self._source[i].line, f"{outer.name}.{self._text(i + 1)}"
        i = self._generics(i + 2)
        body = next(j for j in range(i, len(self._source)) if self._text(j) == "{")
        end = closing(self._source, body)
        parent, interfaces = self._parents(i, body, kind)
        made = Class(
            name,
            self._file,
            line,
            interface=kind == "interface",
            abstract="abstract" in modifiers,
            parent=parent,
            interfaces=interfaces,
        )
        inside = body + 1
        if kind == "enum":
            made.members += self._entries(made, inside, end)
            inside = end
        self.members(made, 0, inside, end)
        if "public" in modifiers or outer.interface:
            self.classes[name] = made
        return end + 1

    def _parents(self, start: int, end: int, kind: str) -> tuple[str, tuple[str, ...]]:
        words = [token.text for token in self._source[start:end]]
        at = {word: words.index(word) for word in ("extends", "implements") if word in words}
        extended = self._names(start + at.get("extends", end), start + at.get("implements", end - start))
        if kind == "interface":
            return "Object", extended
        implemented = self._names(start + at.get("implements", end), end)
        return (extended[0] if extended else "Object"), implemented

    def _names(self, start: int, end: int) -> tuple[str, ...]:
        return tuple(_last(joined(part)) for part in parts(self._source[start + 1 : end]))

    def _entries(self, made: Class, i: int, end: int) -> list[Member]:
        kind = Type(_last(made.name))
        entries = parts(self._source[i:end])
        return [
            Member(part[-1].text, part[-1].line, kind, static=True, deprecated=int(len(part) > 1))
            for part in entries
        ]

    def _member(self, outer: Class, annotations: set[str], modifiers: set[str], i: int, end: int) -> int:
        variables, i = self._declared_variables(i)
        stop = next(j for j in range(i, end) if self._text(j) in ("(", "=", ";", "{"))
        line, name = self._source[stop - 1].line, self._text(stop - 1)
        constructor = self._text(stop) == "(" and stop - 1 == i
        result = Type("void") if constructor else self._type(self._source[i : stop - 1], annotations)
        member_end, made = self._rest(outer, name, line, result, constructor, stop, modifiers, annotations)
        if {"public", "protected"} & modifiers or outer.interface:
            outer.members.append(made)
        self._variables -= variables
        return member_end

    def _rest(
        self,
        outer: Class,
        name: str,
        line: int,
        result: Type,
        constructor: bool,
        stop: int,
        modifiers: set[str],
        annotations: set[str],
    ) -> tuple[int, Member]:
        deprecated = int("Deprecated" in annotations)
        static = "static" in modifiers
        if self._text(stop) != "(":
            end = self._past(stop, ";")
            value = _constant(joined(self._source[stop + 1 : end - 1])) if self._text(stop) == "=" else None
            constant = static or outer.interface
            made = Member(name, line, result, static=constant, value=value, deprecated=deprecated)
            return end, made
        close = closing(self._source, stop)
        parameters = tuple(self._parameter(part) for part in parts(self._source[stop + 1 : close]))
        name = "<init>" if constructor else name
        body = next(j for j in range(close, len(self._source)) if self._text(j) in ("{", ";"))
        end = (closing(self._source, body) if self._text(body) == "{" else body) + 1
        return end, Member(name, line, result, parameters, static=static, deprecated=deprecated)

    def _parameter(self, part: list[Token]) -> Type:
        annotations = {part[i + 1].text for i, token in enumerate(part) if token.text == "@"}
        start = 2 * sum(token.text == "@" for token in part)
        return self._type(part[start:-1], annotations)

    def _type(self, source: Sequence[Token], annotations: set[str]) -> Type:
        text = joined(source)
        arrays = text.count("[]") + text.count("...")
        name = _last(text)
        known = ANY if name in self._variables or len(name) == 1 else NAMES.get(name, name)
        return Type(known, "Nullable" in annotations, arrays)

    def _declared_variables(self, i: int) -> tuple[set[str], int]:
        end = self._generics(i)
        found = {part[0].text for part in parts(self._source[i + 1 : end - 1])} if end > i else set()
        new = found - self._variables
        self._variables |= new
        return new, end

    def _head(self, i: int) -> tuple[int, set[str], set[str]]:
        annotations, modifiers = set(), set()
        while i < len(self._source):
            if self._text(i) == "@" and self._text(i + 1) != "interface":
                annotations.add(self._text(i + 1))
                i += 2
                if self._text(i) == "(":
                    i = closing(self._source, i) + 1
            elif self._text(i) == "@":
                i += 1
            elif self._text(i) in MODIFIERS:
                modifiers.add(self._text(i))
                i += 1
            else:
                break
        return i, annotations, modifiers

    def _generics(self, i: int) -> int:
        depth = 0
        while self._text(i) == "<" or depth:
            depth += (self._text(i) == "<") - (self._text(i) == ">")
            i += 1
        return i

    def _past(self, i: int, text: str) -> int:
        while self._text(i) != text:
            i = closing(self._source, i) + 1 if self._text(i) in ("{", "(") else i + 1
        return i + 1

    def _text(self, i: int) -> str:
        return self._source[i].text if i < len(self._source) else ""


def _last(text: str) -> str:
    return re.sub(r"<.*", "", text.replace("...", "").replace("[]", "")).split(".")[-1]


def _constant(text: str) -> str | None:
    """Return a constant as TypeScript writes it, decimal or quoted; None for anything else."""
    if text.startswith('"'):
        return text
    if not re.fullmatch(r"[-\w\s<]+", text) or re.search(r"[A-Zg-wyz]", text):
        return None
    try:
        tree = ast.parse(text, mode="eval")
        return str(eval(compile(tree, "constant", "eval"), {"__builtins__": {}}))
    except SyntaxError:
        return None
