"""Kotlin's and Java's tokens, each with its line, without comments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

PATTERN = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?\*/)"
    r'|(?P<token>"""(?:.|\n)*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\])+\''
    r"|[A-Za-z_$][\w$]*|\d[\w.]*|\?:|\?\.|->|::|\.\.\.|[^\s])",
    re.DOTALL,
)
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, ")]}"


@dataclass(frozen=True)
class Token:
    """A token's `text`, and the `line` that it begins in, counted from 1."""

    text: str
    line: int


def tokens(text: str) -> list[Token]:
    """Return the tokens of a source."""
    found, line = [], 1
    for match in PATTERN.finditer(text):
        if match["token"]:
            found.append(Token(match["token"], line))
        line += match[0].count("\n")
    return found


def closing(source: Sequence[Token], start: int) -> int:
    """Return where what opens at `start` closes; raises ValueError if it never does."""
    depth = 0
    for i in range(start, len(source)):
        depth += (source[i].text in OPENING) - (source[i].text in CLOSING)
        if depth == 0:
            return i
    raise ValueError(f"what opens in line {source[start].line} never closes")


def joined(source: Sequence[Token]) -> str:
    """Return tokens as one line, the same for sources that differ in spaces, line breaks and last commas."""
    text = " ".join(token.text for token in source)
    text = re.sub(r" ?(::|[.,:;?()@\[\]<>]) ?", r"\1", text)
    text = re.sub(r"(?<!:):(?!:)", ": ", re.sub(r",([)\]>])", r"\1", text).replace(",", ", "))
    return text.replace("?=", "? =").replace(">=", "> =").strip()


def parts(source: Sequence[Token]) -> list[list[Token]]:
    """Return what commas at the outermost level separate, without a last empty part."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in source:
        depth += (token.text in "([{<") - (token.text in ")]}>")
        if token.text == "," and depth == 0:
            found.append([])
        else:
            found[-1].append(token)
    return found if found[-1] else found[:-1]
