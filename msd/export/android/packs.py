"""Divide the files among packs: no file is split, and no pack exceeds Google Play's limit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msd.errors import BadBundle
from msd.export.android.versions import LIMITS
from msd.export.app.manifest import ModelFile

CURE = "convert with a recipe that makes smaller files, or export with --delivery download"


@dataclass(frozen=True)
class Pack:
    """A pack for Google Play: its name there, and the names of its files; `folder` is its Gradle module."""

    name: str
    files: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The module's folder and name: Gradle's with hyphens, Play's with underscores."""
        return self.name.replace("_", "-")


def divide(files: Iterable[ModelFile], others: int = 0) -> tuple[Pack, ...]:
    """Return the fewest packs for `files` in their order; the first also holds `others` more bytes.

    Sizes are uncompressed, as weights hardly compress. Raises BadBundle for files beyond the limits.
    """
    groups: list[list[str]] = [[]]
    total = filled = others
    for file in files:
        _require_fit(file)
        if filled + file.bytes > LIMITS.pack:
            groups.append([])
            filled = 0
        groups[-1].append(file.name)
        filled, total = filled + file.bytes, total + file.bytes
    if total > LIMITS.packs:
        raise BadBundle(
            f"the model has {size(total)}, and Google Play accepts {size(LIMITS.packs)} in all packs; {CURE}"
        )
    return tuple(Pack(f"sd_models_{i}" if i > 1 else "sd_models", tuple(g)) for i, g in enumerate(groups, 1))


def require_small(files: Iterable[ModelFile]) -> None:
    """Raise BadBundle where the files are too large to be part of the app."""
    total = sum(file.bytes for file in files)
    if total > LIMITS.app:
        raise BadBundle(
            f"the model has {size(total)}, and an app with its assets {size(LIMITS.app)} at most; "
            "export with --delivery asset-pack"
        )


def size(count: int) -> str:
    """Return a number of bytes in words, such as "1.5 GB" or "345 MB"."""
    return f"{count / 1e9:.3g} GB" if count >= 10**9 else f"{count / 1e6:.3g} MB"


def _require_fit(file: ModelFile) -> None:
    if file.bytes > LIMITS.pack:
        raise BadBundle(f"{file.name} has {size(file.bytes)}, and a pack at most {size(LIMITS.pack)}; {CURE}")
