"""The order in which test files are handed to workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.costs import COSTS, longest_first, read_costs, write_costs

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Item:
    nodeid: str


def test_the_longest_files_come_first_and_stay_whole() -> None:
    items = [Item(f"tests/{name}") for name in ("a.py::1", "a.py::2", "b.py::1", "b.py::2", "c.py::x[::]")]
    found = longest_first(items, {"tests/c.py": 9.0, "tests/b.py": 2.0})  # type: ignore[arg-type]
    assert found == [items[4], items[2], items[3], items[0], items[1]]


def test_costs_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_costs({"tests/a.py": 1.2, "tests/short.py": 0.9, "tests/b.py": 70.0}, tmp_path / "costs.txt")
    assert list(read_costs(tmp_path / "costs.txt").items()) == [("tests/b.py", 70.0), ("tests/a.py", 1.0)]


def test_the_table_names_files_that_exist() -> None:
    costs = read_costs()
    assert costs
    assert [name for name in costs if not (ROOT / name).is_file()] == []
    assert COSTS.read_text().splitlines() == sorted(
        COSTS.read_text().splitlines(), key=lambda line: -int(line.split()[0])
    )
