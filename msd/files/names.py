"""Names of files that other libraries have to open."""

from __future__ import annotations

from pathlib import Path

from msd.errors import BadConfig


def require_text(path: Path) -> None:
    """Raise BadConfig for a path that is not UTF-8: LiteRT cannot load a file from there."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        raise BadConfig(
            f"{path} is not UTF-8, and LiteRT loads no file from there; give it another name"
        ) from None
