"""Ask each release of LiteRT about every case of tests/oracle/ and compare its rules of litert-gpu with it.

    python -m scripts.oracle_versions 2.1.2 2.3.0 nightly -o docs/results/oracle-by-version.json

Each release is installed once, into msd's cache, and takes some minutes; the table is written after each.
Ends with exit code 1 where the rules of one agree on fewer than `ASKED` of its cases.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msd.graph.prediction.rules import predict
from msd.run.runners.adapter import find
from msd.run.runners.runner import VulkanAdapter
from msd.run.runners.wheels.environment import find_litert
from scripts.figures import MADE, made
from tests.oracle.ask import Answer, in_turn
from tests.oracle.case import Case
from tests.oracle.compare import Compared, every_case
from tests.oracle.table import Reasons, dump, rows

ASKED = 0.99
Answers = Mapping[int, Answer]
"""Answers by the places of their cases."""


def main() -> int:
    """Ask every release, write the table, print how far the rules agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--only", default="", help="ask only about cases whose name begins with this")
    options = parser.parse_args()
    cases = [case for case in every_case() if case.name.startswith(options.only)]
    if not cases:
        parser.error(f"no case of tests/oracle has a name that begins with {options.only}")
    adapter, litert = find(), [find_litert(name) for name in options.versions]
    answers: dict[str, Answers] = {}
    for each in litert:
        answers[each.version] = _answers(cases, adapter, each.python)
        told, reasons = facts(cases, answers, adapter), Reasons()
        table = dump(told, reasons, list(rows(cases, list(answers.values()), reasons)))
        options.output.write_text(table, "utf-8")
        counts = told["releases"][each.version]
        print(f"{each.version}: {counts['agree']} of {counts['cases']} agree", flush=True)
    return 0 if all(each["agree"] >= ASKED * each["cases"] for each in told["releases"].values()) else 1


def _answers(cases: list[Case], adapter: VulkanAdapter, python: Path) -> Answers:
    return {place: answer for place, (_, answer) in enumerate(in_turn(cases, adapter, python))}


def facts(cases: Sequence[Case], answers: Mapping[str, Answers], adapter: VulkanAdapter) -> dict[str, Any]:
    """Return what a table says of itself, with the verdicts and the rules' agreement by release."""
    return {
        MADE: made("msd/graph/prediction"),
        "adapter": f"{adapter.name} ({adapter.type}), {adapter.origin}",
        "versions": list(answers),
        "releases": {release: _counts(cases, release, each) for release, each in answers.items()},
    }


def _counts(cases: Sequence[Case], release: str, answers: Answers) -> dict[str, int]:
    compared = [
        Compared(case, predict(case.model, "litert-gpu", release), answers[place])
        for place, case in enumerate(cases)
    ]
    valid = [one for one in compared if one.valid]
    crashed = sum(one.answer.crashed for one in valid)
    seen = Counter(one.answer.verdict for one in valid)
    return {
        "asked": len(compared),
        "cases": len(valid),
        "agree": sum(one.agrees for one in valid),
        **seen,
        "crashed": crashed,
    }


if __name__ == "__main__":
    sys.exit(main())
