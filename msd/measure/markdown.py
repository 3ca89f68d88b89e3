"""Tables in Markdown, of names that may have any character."""

from __future__ import annotations

from collections.abc import Iterable


def table_row(cells: Iterable[str]) -> str:
    """Return a row of a table; a cell's bars are escaped, and its lines become one."""
    plain = (" ".join(cell.splitlines()).replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(plain)} |"
