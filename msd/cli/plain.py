"""Text for a terminal: names come from files and may hold anything, and nothing may act on it."""

from __future__ import annotations

import json

import click

LONGEST = 1000
"""Letters of a line; a longer one loses its middle."""


def plain(text: str, most: int = LONGEST) -> str:
    """Return text as one line of at most `most` letters and a few, its control characters escaped."""
    return "".join(c if c.isprintable() else _escaped(c) for c in _shortened(text, most))


def plain_lines(text: str) -> str:
    """Return text with all control characters escaped but the ends of lines."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def plain_json(text: str) -> str:
    """Return JSON that says the same, with the control characters of its strings escaped."""
    if text.isascii():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def escape(name: str) -> str:
    """Return a name for a cell of a table: one line, at most `LONGEST` letters and a few, without markup."""
    from rich.markup import escape as without_markup

    return without_markup(plain(name))


def say(text: str, err: bool = False) -> None:
    """Print a line of text on stdout, or on stderr."""
    click.echo(plain(text), err=err)


def say_json(text: str) -> None:
    """Print JSON on stdout, and the end of its last line unless that is there."""
    click.echo(plain_json(text), nl=not text.endswith("\n"))


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    head = most * 2 // 3
    return f"{text[:head]} … ({len(text)} letters) … {text[head - most :]}"


def data_size(count: float) -> str:
    """Return a number of bytes with its unit: 12 B, 3.4 kB, 5.6 MB, 7.89 GB."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"
