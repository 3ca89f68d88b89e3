"""Sentences that count things say "1 step" and "2 steps"."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from msd.files.wording import counted, listed, plural

PACKAGE = Path(__file__).parents[1] / "msd"
SUFFIX = re.compile(r"""(["'])s\1 (\*|if) """)
"""An ending that depends on a number: `'s' * (count > 1)`, `'s' if count > 1 else ''`."""
COUNTED = re.compile(r"^ (cores|evaluations|goldens|operations|partitions|thresholds|trajectories|updates)\b")
"""Things of which there may be one, right behind a number in a string."""


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (counted(0, "step"), "0 steps"),
        (counted(1, "step"), "1 step"),
        (counted(2, "step"), "2 steps"),
        (counted(1, "axis", "axes"), "1 axis"),
        (counted(3, "axis", "axes"), "3 axes"),
        (listed([]), ""),
        (listed(["a"]), "a"),
        (listed(["a", "b"]), "a and b"),
        (listed(iter([1, 2, 3]), "or"), "1, 2 or 3"),
        (plural(1, "is", "are"), "is"),
        (plural(0, "is", "are"), "are"),
    ],
)
def test_a_number_has_its_plural(said: str, words: str) -> None:
    assert said == words


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_no_plural_is_written_by_hand(path: Path) -> None:
    text = path.read_text()
    assert not SUFFIX.search(text)
    assert [*_without_a_singular(ast.parse(text))] == []


def _without_a_singular(module: ast.Module) -> Iterator[str]:
    """Yield the f-strings in which a whole number stands before a plural."""
    for node in ast.walk(module):
        values = node.values if isinstance(node, ast.JoinedStr) else []
        for number, words in itertools.pairwise(values):
            whole = isinstance(number, ast.FormattedValue) and number.format_spec is None
            if whole and isinstance(words, ast.Constant) and COUNTED.match(str(words.value)):
                yield ast.unparse(node)
