"""What `make test` runs and what it leaves to `make test-full` are together all tests."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.costs import read_costs
from tests.selection import BUT, ROOT, TABLE, Selection, changed_files, joining, read_table

SECONDS = 1000
"""The sum of tests/costs.txt over the files that make test runs whole."""
FILES = (
    "tests/test_publishing_kills.py",
    "tests/test_files_atomic.py",
    "tests/test_encoding_recipes_on_demo.py",
)
"""One with a stand-in of its own, one that is not listed, one with a stand-in in another file."""


def collected(part: str) -> list[str]:
    """Return the tests of FILES that pytest collects for a part."""
    options = ["--collect-only", "-q", f"--part={part}", "-o", "addopts=", *FILES]
    environment = {**os.environ, "PATH": "/nowhere"}  # without git nothing has changed
    found = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=ROOT, capture_output=True, text=True, env=environment
    )
    assert found.returncode == 0, found.stdout
    return [line for line in found.stdout.splitlines() if "::" in line]


def test_the_parts_are_all_tests() -> None:
    everything, quick, rest = (collected(part) for part in ("all", "quick", "rest"))
    assert sorted(quick + rest) == sorted(everything)
    assert len(set(everything)) == len(everything)
    assert {test.partition("::")[0] for test in quick} == set(FILES[:2])
    assert {test.partition("::")[0] for test in rest} == {FILES[0], FILES[2]}


def test_every_stand_in_is_a_test_that_make_test_runs() -> None:
    table = read_table()
    assert [*table] == sorted(table)
    for file, patterns in table.items():
        for pattern in {*patterns} - {BUT}:
            place, _, test = pattern.rpartition("::")
            tree = ast.parse((ROOT / (place or file)).read_text("utf-8"))
            names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            name, _, words = test.partition(" ")
            assert name in names, pattern
            assert not place or Selection(table, frozenset()).is_quick(f"{place}::{name}[{words}]"), pattern
            assert not (place and BUT in patterns), pattern


def test_what_make_test_runs_whole_takes_no_longer_than_people_wait() -> None:
    assert sum(cost for file, cost in read_costs().items() if file not in read_table()) <= SECONDS


@pytest.mark.parametrize(
    ("test", "is_quick"),
    [
        ("tests/test_a.py::test_one", True),
        ("tests/test_b.py::test_one", True),
        ("tests/test_b.py::test_one_more", False),
        ("tests/test_b.py::test_two[small-3]", True),
        ("tests/test_b.py::test_two[large-3]", False),
        ("tests/test_c.py::test_one", False),
        ("tests/test_d.py::test_one", True),
        ("tests/test_e.py::test_one", True),
        ("tests/test_e.py::test_two[small-3]", True),
        ("tests/test_e.py::test_two[large-3]", False),
        ("tests/test_f.py::test_one", True),
        ("tests/test_f.py::test_two[small-3]", True),
        ("tests/test_f.py::test_two[small-4]", False),
        ("tests/test_f.py::test_two[large-4]", True),
    ],
)
def test_a_file_that_is_listed_runs_its_stand_ins_alone_unless_it_joins(test: str, is_quick: bool) -> None:
    table = {
        "tests/test_b.py": ("test_one", "test_two small"),
        "tests/test_c.py": ("tests/test_b.py::test_one",),
        "tests/test_d.py": ("test_two",),
        "tests/test_e.py": (BUT, "test_two large"),
        "tests/test_f.py": (BUT, "test_two -large -3"),
    }
    selection = Selection(table, frozenset({"tests/test_d.py"}))
    assert selection.is_quick(test) == is_quick
    assert [selection.takes(test, part) for part in ("all", "quick", "rest")] == [
        True,
        is_quick,
        not is_quick,
    ]
    assert selection.can_take(test.partition("::")[0], "quick" if is_quick else "rest")


def test_only_the_table_has_other_lines_than_files() -> None:
    lines = [line for line in TABLE.read_text("utf-8").splitlines() if not line.startswith("#")]
    assert len(lines) == len(read_table())


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository whose branch left main: a test reaches msd.far over msd.near, another only msd.other."""
    texts = {
        "msd/__init__.py": "",
        "msd/near.py": "def f():\n    import msd.far\n",
        "msd/far.py": "",
        "msd/other.py": "",
        "msd/page/__init__.py": "",
        "msd/page/page.js": "",
        "msd/kinds/__init__.py": 'import_module(f"{__name__}.{name}")\n',
        "msd/kinds/first.py": "",
        "tests/test_far.py": "from msd.near import f\n",
        "tests/test_other.py": "import msd.other\n",
        "tests/test_page.py": "import msd.page\n",
        "tests/test_kinds.py": "import msd.kinds\n",
        "tests/costs.txt": "",
        "docs/page.md": "",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        ["commit", "-qm", "all"],
        ["checkout", "-qb", "x"],
    ):
        git(tmp_path, *words)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "joined"),
    [
        ("msd/far.py", {"tests/test_far.py"}),
        ("msd/near.py", {"tests/test_far.py"}),
        ("msd/other.py", {"tests/test_other.py"}),
        ("msd/page/page.js", {"tests/test_page.py"}),
        ("msd/kinds/first.py", {"tests/test_kinds.py"}),
        ("tests/test_other.py", {"tests/test_other.py"}),
        ("docs/page.md", set()),
        ("tests/costs.txt", set()),
        ("pyproject.toml", {f"tests/test_{name}.py" for name in ("far", "other", "page", "kinds")}),
    ],
)
def test_a_file_joins_when_what_it_reaches_changes(checkout: Path, changed: str, joined: set[str]) -> None:
    table = {f"tests/{path.name}": ("test",) for path in sorted((checkout / "tests").glob("*.py"))}
    assert changed_files(checkout) == set()
    with (checkout / changed).open("a") as file:
        file.write("\n")
    assert changed_files(checkout) == {changed}
    assert joining(table, changed_files(checkout), checkout) == joined


def test_what_a_branch_has_committed_has_changed_too(checkout: Path) -> None:
    (checkout / "msd/far.py").write_text("x = 1\n")
    git(checkout, "commit", "-qam", "far")
    assert changed_files(checkout) == {"msd/far.py"}
