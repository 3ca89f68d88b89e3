"""`msd docs`: the pages of the documentation, which come with the package."""

from __future__ import annotations

import click

from msd.cli.command import Command
from msd.cli.completion import completes
from msd.cli.plain import plain_lines, say
from msd.files.configs import PACKAGE
from msd.files.nearest import nearest

DOCS = PACKAGE / "docs" if (PACKAGE / "docs").is_dir() else PACKAGE.parent / "docs"
"""Inside an installed package, and beside it in a checkout."""


def pages() -> list[str]:
    """Return the names of all pages."""
    return sorted(path.stem for path in DOCS.glob("*.md"))


@click.command(cls=Command)
@click.argument("page", required=False, shell_complete=completes(pages))
def docs(page: str | None) -> None:
    """Print a PAGE of the documentation; without PAGE, the names and titles of all.

    \b
    Examples:
      msd docs quick-start
      msd docs troubleshooting
    """
    if page is None:
        for name in pages():
            say(f"{name:<22} {_title(name)}")
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in pages():
        hint = nearest(name, pages()) or "; msd docs lists them"
        raise click.BadParameter(f"there is no page {page!r}{hint}", param_hint="'PAGE'")
    click.echo(plain_lines((DOCS / f"{name}.md").read_text("utf-8")), nl=False)


def _title(name: str) -> str:
    with (DOCS / f"{name}.md").open(encoding="utf-8") as lines:
        return next(lines).lstrip("# ").strip()
