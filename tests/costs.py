"""How long each test file takes, so that the longest begin first and all workers finish together.

    make test PYTEST="-n 3 --dist loadfile --no-loadscope-reorder --update-costs"

measures it again: on a quiet machine, and with all tests, because it writes the whole table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

COSTS = Path(__file__).parent / "costs.txt"
LEAST = 1.0
"""Seconds; shorter files are not listed, and come last."""


def read_costs(path: Path = COSTS) -> dict[str, float]:
    """Return seconds by file, named from the root of the repository."""
    rows = (line.split() for line in path.read_text("utf-8").splitlines())
    return {name: float(seconds) for seconds, name in rows}


def write_costs(costs: Mapping[str, float], path: Path = COSTS) -> None:
    """Write seconds by file, the longest first."""
    longest = sorted(costs.items(), key=lambda item: (-item[1], item[0]))
    path.write_text("".join(f"{cost:.0f} {name}\n" for name, cost in longest if cost >= LEAST), "utf-8")


def longest_first(items: list[pytest.Item], costs: Mapping[str, float]) -> list[pytest.Item]:
    """Return the items, whole files in the order of their costs; within a file nothing changes."""
    return sorted(items, key=lambda item: -costs.get(item.nodeid.partition("::")[0], 0.0))


class Stopwatch:
    """A pytest plugin that adds up what each file takes and writes it when all tests have run."""

    def __init__(self) -> None:
        self.costs: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.costs[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        write_costs(self.costs)
