"""Ask each release of LiteRT about every case of tests/oracle/ and compare its rules of litert-gpu with it.

    python scripts/oracle_versions.py 2.1.2 2.3.0 nightly -o docs/results/oracle-by-version.json

Each release is installed once, into msd's cache, and takes some minutes. Ends with exit code 1 where the
rules of one agree on fewer than `ASKED` of its cases.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from msd.graph.prediction.rules import predict
from msd.run.runners.adapter import find
from msd.run.runners.runner import VulkanAdapter
from msd.run.runners.wheels.environment import find_litert
from tests.oracle.ask import Answer, in_turn
from tests.oracle.case import Case
from tests.oracle.compare import Compared, every_case
from tests.oracle.table import Reasons, dump, rows

ASKED = 0.99
TABLE = "docs/results/oracle-by-version.json"
Answers = Mapping[int, Answer]
"""Answers by the places of their cases."""


def main() -> int:
    """Ask every release, write the table, print how far the rules agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    adapter, cases = find(), list(every_case())
    litert = [find_litert(name) for name in options.versions]
    answers = [_answers(cases, adapter, each.python) for each in litert]
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    told = facts(cases, [each.version for each in litert], answers, machine, adapter)
    reasons = Reasons()
    options.output.write_text(dump(told, reasons, list(rows(cases, answers, reasons))), "utf-8")
    for release, counts in told["releases"].items():
        print(f"{release}: {counts['agree']} of {counts['cases']} agree")
    return 0 if all(each["agree"] >= ASKED * each["cases"] for each in told["releases"].values()) else 1


def _answers(cases: list[Case], adapter: VulkanAdapter, python: Path) -> Answers:
    return {place: answer for place, (_, answer) in enumerate(in_turn(cases, adapter, python))}


def facts(
    cases: Sequence[Case],
    releases: Sequence[str],
    answers: Sequence[Answers],
    machine: str,
    adapter: VulkanAdapter,
) -> dict[str, Any]:
    """Return what a table says of itself, with the verdicts and the rules' agreement by release."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    return {
        "command": f"python scripts/oracle_versions.py {' '.join(releases)} -o {TABLE}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip(),
        "machine": machine,
        "adapter": f"{adapter.name} ({adapter.type}), {adapter.origin}",
        "cpu_reference": f"ai-edge-litert {version('ai-edge-litert')}, numpy {version('numpy')}",
        "versions": list(releases),
        "releases": {
            release: _counts(cases, release, each) for release, each in zip(releases, answers, strict=True)
        },
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
