"""Write the table of a conversion's options in docs/api.md from their one statement.

python -m scripts.draw_options
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from msd.conversion.options import ConversionOptions, options
from msd.measure.markdown import table_row

PAGE = Path(__file__).parent.parent / "docs" / "api.md"
BEGIN, END = "| keyword | default | what it does |", "\n\n"


def table() -> str:
    """Return the table, in Markdown."""
    defaults = {each.name: each.default for each in fields(ConversionOptions)}
    rows = [
        table_row((f"`{name}`", stated.shown or f"`{defaults[name]!r}`", _sentence(name, stated.help)))
        for name, stated in options().items()
    ]
    return "\n".join([BEGIN, "|---|---|---|", *rows])


def _sentence(name: str, help: str) -> str:
    """Return an option's help without the command line's words; a flag is the opposite of its keyword."""
    said = help.replace("; may be repeated", "").replace("  [list: show them]", "")
    return said.replace("Do not refit", "False: do not refit") if name == "refit" else said


def drawn(page: str) -> str:
    """Return the page with today's table in the place of its own."""
    before, _, rest = page.partition(BEGIN)
    return before + table() + END + rest.partition(END)[2]


def main() -> None:
    """Write the page."""
    PAGE.write_text(drawn(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
