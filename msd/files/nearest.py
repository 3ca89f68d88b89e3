"""The nearest of the names that something may have, for a message about another one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, names: Iterable[str]) -> str:
    """Return the question after a message about `word`; nothing where no name is near."""
    near = get_close_matches(word, list(names), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
