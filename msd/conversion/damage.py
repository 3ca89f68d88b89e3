"""Whether a file that could not be read is as it was converted: its manifest's SHA-256 tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msd.bundle import MANIFEST, file_facts, load_manifest
from msd.errors import BadBundle, BadModelFile, DelegateFailed, MsdError, NotFinite

READING = (BadModelFile, DelegateFailed, NotFinite)
"""What a damaged file leads to."""


@contextmanager
def damage_named(places: Iterable[Path]) -> Iterator[None]:
    """Turn an error of the `with` block into BadBundle where a file has changed since its conversion.

    `places` are folders of converted files, or such files. Their SHA-256 is computed only after an error.
    """
    try:
        yield
    except READING as error:
        if changed := changed_file(places):
            because = f"{changed} has changed since its conversion: its SHA-256 is not the one in {MANIFEST}"
            raise BadBundle(f"{because}; convert the checkpoint again ({error})") from error
        raise


def changed_file(places: Iterable[Path]) -> Path | None:
    """Return the first file that is not as its manifest says; None where all are, or no manifest is."""
    for place in places:
        folder = place if place.is_dir() else place.parent
        with suppress(MsdError, OSError):
            for component in load_manifest(folder / MANIFEST).components.values():
                file = folder / component.file
                if place in (folder, file) and file_facts(file).sha256 != component.sha256:
                    return file
    return None
