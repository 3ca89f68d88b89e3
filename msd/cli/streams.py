"""The standard streams take every character."""

from __future__ import annotations

import codecs
import io
import sys

ESCAPED = "msd-escaped"
"""The name of our way to print what an encoding lacks: as in JSON, where it then is still the character."""


def print_everything() -> None:
    r"""Let stdout and stderr print what their encoding lacks as \u00e9, such as paths of other bytes."""
    codecs.register_error(ESCAPED, _escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ESCAPED)


def _escape(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    units = problem.object[problem.start : problem.end].encode("utf-16-be", "surrogatepass")
    escaped = (f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    return "".join(escaped), problem.end
