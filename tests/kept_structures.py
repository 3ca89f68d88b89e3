"""Traced structures of the tests' networks, so that a clone need not trace each with TensorFlow.

    rm -r build/tests/structures; make test-full; python -m tests.kept_structures

writes structures.zip anew. Names have the fingerprint of all that decides a structure: those of other code or
libraries are of no use and do no harm, as networks are traced then.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from msd.files.atomic import atomic_write

ARCHIVE = Path(__file__).with_name("structures.zip")
FOLDER = Path(__file__).parents[1] / "build/tests/structures"
"""Traced structures of earlier runs."""


def unpack(archive: Path, folder: Path) -> None:
    """Write the structures of an archive to a folder, but those that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as kept:
        for name in kept.namelist():
            if not (folder / name).exists():
                with atomic_write(folder / name, lasting=False) as temporary:
                    temporary.write_bytes(kept.read(name))


def pack(folder: Path, archive: Path) -> None:
    """Write the structures of a folder to an archive, which is the same for the same ones."""
    with atomic_write(archive) as temporary, zipfile.ZipFile(temporary, "w") as kept:
        for path in sorted(folder.glob("*.zip")):
            kept.writestr(zipfile.ZipInfo(path.name), path.read_bytes())


if __name__ == "__main__":
    pack(FOLDER, ARCHIVE)
