"""The declarations of a Kotlin source, each as one normalized line: what a caller can see of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scripts.android_apis.tokens import Token, closing, joined, parts, tokens

WORDS = """
    public private internal protected abstract final open override data enum sealed inner inline suspend
    operator infix lateinit const external vararg annotation value tailrec
"""
MODIFIERS = set(WORDS.split())
KINDS = ("class", "interface", "object", "fun", "val", "var", "constructor", "init", "typealias", "companion")
STARTS = MODIFIERS | set(KINDS) | {"}", "@", "get", "set"}
SEEN = ("JvmStatic", "JvmOverloads", "JvmField", "Throws", "Deprecated")
HIDDEN = {"private", "internal"}
USUAL = {"public"}


@dataclass(frozen=True)
class Declaration:
    """`text` is the whole signature; `name` has the classes around it, without companions."""

    name: str
    kind: str
    text: str
    file: str
    line: int

    @property
    def parameters(self) -> int | None:
        """The number of parameters, None where there are none to give."""
        if self.kind == "entry" or "(" not in self.text.replace("@Throws(", ""):
            return None
        source = tokens(self.text.partition(self.name)[2])
        start = next((i for i, token in enumerate(source) if token.text == "("), None)
        return None if start is None else len(parts(source[start + 1 : closing(source, start)]))


def declarations(text: str, file: str) -> list[Declaration]:
    """Return what a source declares for others; raises ValueError where brackets do not match."""
    source = [*tokens(text), Token("}", 0)]
    return _KotlinReader(source, file).members("", 0, len(source) - 1)


class _KotlinReader:
    def __init__(self, source: Sequence[Token], file: str) -> None:
        self._source = source
        self._file = file

    def members(self, outer: str, i: int, end: int) -> list[Declaration]:
        found: list[Declaration] = []
        while i < end:
            if self._text(i) in ("package", "import"):
                i = self._next_line(i)
                continue
            head = i
            i, annotations, modifiers = self._modifiers(i)
            if self._text(i) not in KINDS:
                i = max(i, head) + 1
                continue
            declared, i = self._declared(outer, annotations, modifiers, i)
            found += declared
        return found

    def _declared(
        self, outer: str, annotations: list[str], modifiers: list[str], i: int
    ) -> tuple[list[Declaration], int]:
        word = self._text(i)
        if word == "init":
            return [], closing(self._source, i + 1) + 1
        if word == "companion":
            return self._companion(outer, modifiers, i + 1)
        if word in ("class", "interface", "object"):
            return self._class(outer, annotations, modifiers, i)
        if word in ("val", "var"):
            return self._property(outer, annotations, modifiers, i)
        return self._function(outer, annotations, modifiers, i)

    def _companion(self, outer: str, modifiers: list[str], i: int) -> tuple[list[Declaration], int]:
        i += 1
        if self._text(i) != "{":
            i += 1
        end = closing(self._source, i)
        return ([] if HIDDEN & set(modifiers) else self.members(outer, i + 1, end)), end + 1

    def _class(
        self, outer: str, annotations: list[str], modifiers: list[str], i: int
    ) -> tuple[list[Declaration], int]:
        kind, line, name = self._text(i), self._source[i].line, self._qualified(outer, i + 1)
        constructor, i = self._constructor(self._generics(i + 2))
        supertypes, i = self._supertypes(i)
        text = " ".join(filter(None, [*self._seen(annotations, modifiers), kind, name, constructor]))
        found = [Declaration(name, kind, text + supertypes, self._file, line=line)]
        if self._text(i) == "{":
            end = closing(self._source, i)
            inside = i + 1
            if "enum" in modifiers:
                entries, inside = self._entries(name, inside, end)
                found += entries
            found += self.members(name, inside, end)
            i = end + 1
        return ([] if HIDDEN & set(modifiers) else found), i

    def _constructor(self, i: int) -> tuple[str, int]:
        """Return a class's constructor as its callers see it, and where what follows it begins."""
        start = i
        i, annotations, modifiers = self._modifiers(i)
        i += self._text(i) == "constructor"
        if self._text(i) != "(":
            return "", start
        end = closing(self._source, i)
        hidden = HIDDEN & set(modifiers)
        parameters = "(hidden)" if hidden else self._parameters(i, end)
        return "".join(f"{word} " for word in self._seen(annotations, modifiers)) + parameters, end + 1

    def _supertypes(self, i: int) -> tuple[str, int]:
        if self._text(i) != ":":
            return "", i
        start = i + 1
        while self._text(i) not in ("{", "}") and (i == start - 1 or not self._begins(i)):
            i = closing(self._source, i) + 1 if self._text(i) == "(" else i + 1
        names = [joined(part).split("(")[0] for part in parts(self._source[start:i])]
        return ": " + ", ".join(names), i

    def _entries(self, outer: str, i: int, end: int) -> tuple[list[Declaration], int]:
        """Return an enum's entries, and where its other members begin."""
        stop = next((j for j in range(i, end) if self._source[j].text == ";"), end)
        found = []
        for part in parts(self._source[i:stop]):
            names = [j for j, token in enumerate(part) if token.text[0].isalpha()]
            at = names[0] if part[0].text != "@" else closing(part, part.index(_find(part, "("))) + 1
            text = joined(part)
            name = f"{outer}.{part[at].text}"
            found.append(Declaration(name, "entry", text, self._file, line=part[at].line))
        return found, stop + (stop < end)

    def _property(
        self, outer: str, annotations: list[str], modifiers: list[str], i: int
    ) -> tuple[list[Declaration], int]:
        word, line, name = self._text(i), self._source[i].line, self._qualified(outer, i + 1)
        start = i = i + 2
        while not self._ends(i) and self._text(i) not in ("=", "{"):
            i += 1
        stated = joined(self._source[start:i])
        value_start = i
        i = self._after_body(i)
        value = "" if stated or modifiers else " " + joined(self._source[value_start:i])
        text = " ".join([*self._seen(annotations, modifiers), word, name]) + (stated or value)
        hidden = HIDDEN & set(modifiers)
        return ([] if hidden else [Declaration(name, word, text, self._file, line=line)]), i

    def _function(
        self, outer: str, annotations: list[str], modifiers: list[str], i: int
    ) -> tuple[list[Declaration], int]:
        kind, line = self._text(i), self._source[i].line
        while self._text(i + 1) == "<":
            i += next(j for j in range(1, len(self._source)) if self._source[i + j].text == ">")
        name = f"{outer}.<init>" if kind == "constructor" else self._qualified(outer, i + 1)
        while self._text(i) != "(":
            i += 1
        end = closing(self._source, i)
        parameters = self._parameters(i, end)
        result, i = self._result(kind, end + 1)
        text = " ".join([*self._seen(annotations, modifiers), kind, name]) + parameters + result
        hidden = HIDDEN & set(modifiers)
        return ([] if hidden else [Declaration(name, kind, text, self._file, line=line)]), i

    def _result(self, kind: str, i: int) -> tuple[str, int]:
        if kind == "constructor":
            while self._text(i) != "{" and not self._ends(i):
                i = closing(self._source, i) + 1 if self._text(i) == "(" else i + 1
            return "", self._after_body(i)
        start = i
        while not self._ends(i) and self._text(i) not in ("=", "{"):
            i += 1
        stated = joined(self._source[start:i])
        unknown = ": ?" if self._text(i) == "=" else ": Unit"
        return stated or unknown, self._after_body(i)

    def _after_body(self, i: int) -> int:
        """Return where what follows a body, a value or accessors begins."""
        if self._text(i) == "{":
            return closing(self._source, i) + 1
        while not self._ends(i):
            i = closing(self._source, i) + 1 if self._text(i) in ("(", "{", "[") else i + 1
        while self._text(i) in ("get", "set") and self._text(i + 1) == "(":
            i = self._after_body(closing(self._source, i + 1) + 1)
        return i

    def _ends(self, i: int) -> bool:
        return self._text(i) in ("}", ";") or self._begins(i)

    def _begins(self, i: int) -> bool:
        """Return whether a declaration begins here: a new line, and a word that begins one."""
        return self._source[i].line > self._source[i - 1].line and self._text(i) in STARTS

    def _modifiers(self, i: int) -> tuple[int, list[str], list[str]]:
        annotations, modifiers = [], []
        while True:
            if self._text(i) == "@":
                end = i + 1
                while self._text(end + 1) in (":", "."):
                    end += 2
                if self._text(end + 1) == "(" and self._source[end + 1].line == self._source[end].line:
                    end = closing(self._source, end + 1)
                annotations.append(joined(self._source[i + 1 : end + 1]))
                i = end + 1
            elif self._text(i) in MODIFIERS:
                modifiers.append(self._text(i))
                i += 1
            else:
                return i, annotations, modifiers

    def _parameters(self, start: int, end: int) -> str:
        inside = (joined(part).replace("public ", "") for part in parts(self._source[start + 1 : end]))
        return "(" + ", ".join(part for part in inside) + ")"

    def _seen(self, annotations: list[str], modifiers: list[str]) -> list[str]:
        shown = sorted("@" + each for each in annotations if each.split("(")[0] in SEEN)
        return [*shown, *sorted(set(modifiers) - USUAL)]

    def _generics(self, i: int) -> int:
        if self._text(i) != "<":
            return i
        depth = 0
        while True:
            depth += (self._text(i) == "<") - (self._text(i) == ">")
            i += 1
            if depth == 0:
                return i

    def _next_line(self, i: int) -> int:
        line = self._source[i].line
        while i < len(self._source) and self._source[i].line == line:
            i += 1
        return i

    def _qualified(self, outer: str, i: int) -> str:
        return f"{outer}.{self._text(i)}" if outer else self._text(i)

    def _text(self, i: int) -> str:
        return self._source[i].text if i < len(self._source) else "}"


def _find(part: Sequence[Token], text: str) -> Token:
    return next(token for token in part if token.text == text)
