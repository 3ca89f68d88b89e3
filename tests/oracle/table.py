"""What each release answered to each case, in one file: docs/results/oracle-by-version.json.

A cell is a letter and a number: `r147` and `w12` are right and wrong at so many decibels from the CPU (`r`
alone: equal), `j3`, `f4`, `c5`, `u6` rejected, failed, crashed, and taken but not compared, for the reason of
that number; `i` no file that the runtime loads. A row has a cell for each release, or one where all are the
same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.oracle.ask import Answer
from tests.oracle.case import Case

LETTERS = {"right": "r", "wrong": "w", "rejected": "j", "failed": "f", "unchecked": "u", "invalid": "i"}
VERDICTS = {letter: verdict for verdict, letter in LETTERS.items()} | {"c": "failed"}


class Reasons:
    """The distinct reasons in a table, numbered as they come."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, reason: str) -> int:
        """Return the number of a reason."""
        return self.numbers.setdefault(reason, len(self.numbers))


def cell(answer: Answer, reasons: Reasons) -> str:
    """Return an answer as a cell."""
    verdict = answer.verdict
    if verdict in ("right", "wrong"):
        return LETTERS[verdict] + (
            "" if answer.psnr is None or not math.isfinite(answer.psnr) else f"{answer.psnr:.0f}"
        )
    if verdict == "invalid":
        return "i"
    letter = "c" if answer.crashed else LETTERS[verdict]
    return f"{letter}{reasons.number(_reason(answer))}"


def _reason(answer: Answer) -> str:
    if answer.rejected:
        return "; ".join(f"{kind}: {reason}" for kind, reason in answer.rejected)
    return " ".join((answer.failure or answer.reference or "").split())[:160]


def rows(
    cases: Iterable[Case], answers: Sequence[Mapping[int, Answer]], reasons: Reasons
) -> Iterator[list[str]]:
    """Yield [name, cells] of each case, by its place, of the releases' answers in order."""
    for place, case in enumerate(cases):
        cells = [cell(of_release[place], reasons) for of_release in answers]
        yield [case.name, cells[0] if len(set(cells)) == 1 else " ".join(cells)]


def answer_in(text: str, reasons: Sequence[str]) -> Answer:
    """Return the answer in a cell, as far as a table holds it."""
    letter, number = text[0], text[1:]
    if letter in "rw":
        return Answer(psnr=float(number) if number else (math.inf if letter == "r" else math.nan))
    if letter == "i":
        return Answer(failure="invalid", invalid=True)
    reason = reasons[int(number)]
    if letter == "j":
        return Answer(tuple(_pairs(reason)))
    return (
        Answer(reference=reason)
        if letter == "u"
        else Answer(failure=reason or "no words", crashed=letter == "c")
    )


def _pairs(reason: str) -> Iterator[tuple[str, str]]:
    for pair in reason.split("; "):
        kind, _, words = pair.partition(": ")
        yield kind, words


def read(path: Path) -> tuple[list[str], list[tuple[str, list[Answer]]]]:
    """Return the releases of a table, and each case's name with the answers of all releases."""
    table: dict[str, Any] = json.loads(path.read_text("utf-8"))
    releases, answered = table["versions"], []
    for name, cells in table["cases"]:
        parts = cells.split()
        parts = parts * len(releases) if len(parts) == 1 else parts
        answered.append((name, [answer_in(part, table["reasons"]) for part in parts]))
    return releases, answered


def dump(facts: Mapping[str, Any], reasons: Reasons, every: Sequence[list[str]]) -> str:
    """Return a table as JSON, with a line for each reason and each case."""
    head = json.dumps(facts, indent=1, ensure_ascii=False)[:-2]
    told = ",\n".join(json.dumps(reason, ensure_ascii=False) for reason in reasons.numbers)
    cases = ",\n".join(json.dumps(row, ensure_ascii=False) for row in every)
    return f'{head},\n "reasons": [\n{told}\n ],\n "cases": [\n{cases}\n ]\n}}\n'
