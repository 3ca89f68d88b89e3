"""Prompts in a text file, one per line."""

from __future__ import annotations

from pathlib import Path

from msd.bounds import MOST_PROMPT, MOST_PROMPTS
from msd.errors import BadCalibration
from msd.files import bounded


def read_prompts(path: Path, most: int = MOST_PROMPTS) -> tuple[str, ...]:
    """Return the prompts in a UTF-8 text file, one per line, without empty lines and those that begin with #.

    Raises BadCalibration for a file that is missing or is no text, and for none, more than `most`, or
    long ones.
    """
    try:
        lines = [line.strip() for line in bounded.read_text(path).splitlines()]
    except (OSError, ValueError) as problem:
        raise BadCalibration(
            f"{path} cannot be read as UTF-8 text of one prompt per line: {problem}"
        ) from problem
    prompts = tuple(line for line in lines if line and not line.startswith("#"))
    if not prompts:
        raise BadCalibration(f"{path} has no prompt; it should have one per line")
    if len(prompts) > most:
        raise BadCalibration(f"{path} has {len(prompts)} prompts, and at most {most} are read")
    if (letters := max(map(len, prompts))) > MOST_PROMPT:
        raise BadCalibration(f"{path} has a prompt of {letters} letters, and at most {MOST_PROMPT} are read")
    return prompts
