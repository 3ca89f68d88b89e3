r"""Weights in prompts, in the syntax of AUTOMATIC1111's web UI.

(word) weighs 1.1, (word:1.5) weighs 1.5, and [word] 1 / 1.1; brackets inside brackets multiply. A backslash
makes the next bracket or backslash plain text and is itself left out, as in \(word\). An open bracket that
nothing closes ends with the prompt, and a closing one that nothing opened is text. The rules are those of
`parse_prompt_attention` in modules/prompt_parser.py of that program, without BREAK, which is text here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import regex

from msd.errors import BadConfig

PromptSyntax = Literal["plain", "weights"]
SYNTAXES: tuple[PromptSyntax, ...] = get_args(PromptSyntax)

FACTORS = {"(": 1.1, "[": 1 / 1.1}
"""The weight of a bracket that states none."""

OPENED_BY = {")": "(", "]": "["}
PARTS = regex.compile(
    r"""\\(?P<escaped>[\\()\[\]]?)          # a backslash, and what it makes plain
    | (?P<open>[(\[])
    | :\s*(?P<number>[+-]*[.,\d]*[.\d][.,\d]*)\s*\)
    | (?P<close>[)\]])
    | (?P<text>[^\\()\[\]:]+|:)""",
    regex.VERBOSE,
)


@dataclass(frozen=True)
class WeightedText:
    """A stretch of a prompt whose tokens have one weight."""

    text: str
    weight: float = 1.0


def pieces_of(prompt: str, syntax: str) -> tuple[WeightedText, ...]:
    """Return the pieces of a prompt, at least one, neighbours of different weights.

    `syntax` "plain" is one piece of the whole prompt. Raises BadConfig for another syntax than "plain" and
    "weights", and for a weight that is not a finite number.
    """
    if syntax not in SYNTAXES:
        raise BadConfig(f"the prompt syntax {syntax!r} is not known; known are {', '.join(SYNTAXES)}")
    if syntax == "plain":
        return (WeightedText(prompt),)
    reading = _Reading(np.ones(len(prompt)))
    with np.errstate(over="ignore", invalid="ignore"):
        for part in PARTS.finditer(prompt):
            reading.read(part)
        return tuple(_merged(reading.finished())) or (WeightedText(""),)


@dataclass
class _Reading:
    """The texts read so far, their weights, and for each kind of bracket the texts before each open one.

    `weights` is an array, for thousands of brackets, one in another, multiply those of thousands of texts.
    """

    weights: npt.NDArray[np.float64]
    texts: list[str] = field(default_factory=list)
    open: dict[str, list[int]] = field(default_factory=lambda: {bracket: [] for bracket in FACTORS})

    def read(self, part: regex.Match[str]) -> None:
        kind, text = str(part.lastgroup), part.group()
        bracket = OPENED_BY[text[-1]] if kind in ("number", "close") else ""
        if kind == "open":
            self.open[text].append(len(self.texts))
        elif bracket and self.open[bracket]:
            factor = _number(part["number"]) if kind == "number" else FACTORS[bracket]
            self.weigh(self.open[bracket].pop(), factor)
        else:
            self.texts.append(part["escaped"] if kind == "escaped" else text)

    def weigh(self, start: int, factor: float) -> None:
        """Multiply the weights of the texts from `start` on."""
        self.weights[start : len(self.texts)] *= factor

    def finished(self) -> list[WeightedText]:
        """Return all pieces, with the brackets closed that are still open."""
        for bracket, starts in self.open.items():
            for start in starts:
                self.weigh(start, FACTORS[bracket])
        return [*map(WeightedText, self.texts, self.weights.tolist())]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise BadConfig(
            f"the prompt has the weight {text!r}, which is no number; one was expected, as in (word:1.2)"
        ) from error


def _merged(pieces: Iterable[WeightedText]) -> Iterable[WeightedText]:
    """Yield pieces that have text, neighbours of the same weight as one."""
    for weight, run in groupby((piece for piece in pieces if piece.text), lambda piece: piece.weight):
        if not math.isfinite(weight):
            raise BadConfig("the weights of the prompt's nested brackets multiply to more than float64 holds")
        yield WeightedText("".join(piece.text for piece in run), weight)
