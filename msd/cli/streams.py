"""The standard streams are there, and take every character."""

from __future__ import annotations

import codecs
import io
import os
import sys

ESCAPED = "msd-escaped"
"""The name of our way to print what an encoding lacks: as in JSON, where it then is still the character."""


def open_streams() -> None:
    """Let what is printed go nowhere where the caller has closed stdout or stderr.

    The next files that are opened would have their numbers, and hold what native libraries print.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest that is free
        os.set_inheritable(number, True)
    os.close(number)
    for name, number in {"stdout": 1, "stderr": 2}.items():
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115


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
