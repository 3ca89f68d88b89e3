"""Which tests `make test` runs, and which it leaves to `make test-full`.

`stand_ins.txt` lists the files that take long, each with the tests that stand in for it, or with those that
are left out. A listed file joins `make test` whole when the code that it reaches has changed since main: any
module that it imports, over any number of modules, or a file that lies beside one. What the fixtures of
conftest.py import is not followed.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from scripts.source_modules import FOLDERS, Modules, imports, read_modules

ROOT = Path(__file__).parent.parent
TABLE = Path(__file__).with_name("stand_ins.txt")
EVERYWHERE = ("pyproject.toml", "configs/", "tests/golden/")
"""What any test may depend on."""
NOWHERE = {"tests/costs.txt", "tests/stand_ins.txt"}
"""What only sorts tests."""
NAMED = re.compile(r'"((?:msd|graph_rewrites)\.[\w.]+)[":]')
"""A module in a string, for import_module."""
MAIN = "main", "origin/main"
BUT = "all but "
"""Begins a line's tests where they are those that are left out."""

Part = Literal["all", "quick", "rest"]
Table = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Selection:
    """The files that take long, with their stand-ins, and those of them that run whole."""

    table: Table
    joined: frozenset[str]

    def is_quick(self, nodeid: str) -> bool:
        """Return whether `make test` runs a test; the others are the rest."""
        file, _, test = nodeid.partition("::")
        if file in self.joined or file not in self.table:
            return True
        patterns = self.table[file]
        return any(_matches(pattern, test) for pattern in patterns) != (BUT in patterns)

    def takes(self, nodeid: str, part: Part) -> bool:
        """Return whether a part has a test."""
        return part == "all" or self.is_quick(nodeid) == (part == "quick")

    def can_take(self, file: str, part: Part) -> bool:
        """Return whether a part may have a test of a file, which needs not be imported otherwise."""
        is_listed = file in self.table and file not in self.joined
        if part == "rest":
            return is_listed
        return part == "all" or not is_listed or any("::" not in each for each in self.table[file])


def _matches(pattern: str, test: str) -> bool:
    """Return whether a test has the pattern's name, and in its parameters all the words behind that.

    Of words that begin with a hyphen it has none.
    """
    name, *words = pattern.split()
    found, _, parameters = test.partition("[")
    if "::" in pattern or found != name:
        return False
    return all((word.removeprefix("-") in parameters) != word.startswith("-") for word in words)


@cache
def read_table(path: Path = TABLE) -> dict[str, tuple[str, ...]]:
    """Return the stand-ins of each file that takes long, named from the root of the repository.

    `BUT` is one of them where the others are left out.
    """
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    rows = (line.split(": ", 1) for line in lines)
    return {file: tuple(tests.replace(BUT, f"{BUT}; ").split("; ")) for file, tests in rows}


def changed_files(root: Path = ROOT) -> set[str]:
    """Return what differs from where the branch left main, whether committed or not; outside git nothing."""
    base = next((found[0] for name in MAIN if (found := _git(root, "merge-base", "HEAD", name))), "HEAD")
    names = _git(root, "diff", "--name-only", base), _git(root, "ls-files", "-o", "--exclude-standard")
    return {name for lines in names for name in lines}


def _git(root: Path, *words: str) -> list[str]:
    try:
        found = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return found.stdout.splitlines() if found.returncode == 0 else []


def joining(table: Table, changed: Iterable[str], root: Path = ROOT) -> frozenset[str]:
    """Return the files of the table that reach what has changed."""
    changed = {
        name for name in changed if name.startswith((*(f"{each}/" for each in FOLDERS), *EVERYWHERE))
    } - NOWHERE
    if not changed:
        return frozenset()
    if any(name.startswith(EVERYWHERE) for name in changed):
        return frozenset(table)
    modules = read_modules(root)
    touched = {module for name in changed for module in _beside(name, modules)}
    graph = cache(lambda name: _imported(name, modules))
    return frozenset(file for file in table if _reached(_module(file), graph) & touched)


def _module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _beside(file: str, modules: Modules) -> set[str]:
    """Return the module of a file; of a file that is none, those of the nearest folder that has any."""
    if file.endswith(".py"):
        return {_module(file)}
    for folder in Path(file).parents:
        package = ".".join(folder.parts)
        if package and (found := {name for name in modules if f"{name}.".startswith(f"{package}.")}):
            return found
    return set()


def _imported(name: str, modules: Modules) -> set[str]:
    """Return our modules that a module imports or names; one that computes names reaches all its package."""
    if name not in modules:
        return set()
    text = modules[name].text
    found = {*imports(modules[name], modules), *NAMED.findall(text)} & set(modules)
    if 'import_module(f"' in text:
        is_package = any(each.startswith(f"{name}.") for each in modules)
        package = name if is_package else name.rpartition(".")[0]
        found |= {each for each in modules if each.startswith(f"{package}.")}
    return found


def _reached(start: str, graph: Callable[[str], set[str]]) -> set[str]:
    """Return a module and those that it imports, directly and over others."""
    seen, waiting = {start}, {start}
    while waiting:
        found = graph(waiting.pop()) - seen
        waiting |= found
        seen |= found
    return seen
