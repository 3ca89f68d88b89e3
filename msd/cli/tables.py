"""Tables that stack where a terminal is too narrow for them, so that no word is cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_table(out: Console, table: Table) -> None:
    """Print a table; where that would cut a word, each row as its first cell with the others below."""
    if _keeps_words(out, table):
        out.print(table)
        return
    if table.title:
        out.print(table.title, style="italic")
    heads, *rows = _cells(table)
    for row in rows:
        _print_stacked(out, heads, row)
    if table.caption:
        out.print(table.caption, style="dim italic")


def short_names(files: Iterable[str]) -> dict[str, str]:
    """Return for each file its name without folders, or the whole path where two have that name."""
    names = {file: file.rpartition("/")[2] for file in files}
    count = Counter(names.values())
    return {file: name if count[name] == 1 else file for file, name in names.items()}


def _cells(table: Table) -> list[tuple[str, ...]]:
    """Return the markup of the cells, the titles first."""
    columns = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    return [tuple(row) for row in zip_longest(*columns, fillvalue="")]


def _keeps_words(out: Console, table: Table) -> bool:
    lines = out.render_lines(table, out.options)
    shown = Counter(word for line in lines for word in "".join(part.text for part in line).split())
    titles = [str(text) for text in (table.title, table.caption) if text]
    texts = [out.render_str(cell).plain for row in [*_cells(table), titles] for cell in row]
    wanted = Counter(word for text in texts for word in text.split())
    return not wanted - shown


def _print_stacked(out: Console, heads: tuple[str, ...], row: tuple[str, ...]) -> None:
    """Print the cells up to the first with a title, then a line for each other one."""
    from rich.padding import Padding

    named = next((n for n, head in enumerate(heads) if head and row[n]), 0)
    out.print(" ".join(cell.strip() for cell in row[: named + 1]), overflow="fold")
    for head, cell in zip(heads[named + 1 :], row[named + 1 :], strict=True):
        if cell:
            label = f"[dim]{head}:[/] " if head else ""
            out.print(Padding(f"{label}{cell.strip()}", (0, 0, 0, 4)), overflow="fold")
