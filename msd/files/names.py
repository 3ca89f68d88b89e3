"""Names of files: what can be one, and what other libraries can open."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from msd.errors import BadConfig


def can_be_path(value: object) -> bool:
    """Whether a value is a text or Path that a file may have: not empty, no longer than the system allows."""
    if not isinstance(value, str | Path) or not str(value):
        return False
    try:
        os.lstat(value)
    except ValueError:  # a zero inside, or half a letter
        return False
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    return True


def require_text(path: Path) -> None:
    """Raise BadConfig for a path that is not UTF-8: LiteRT cannot load a file from there."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        raise BadConfig(
            f"{path} is not UTF-8, and LiteRT loads no file from there; give it another name"
        ) from None
