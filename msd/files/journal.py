"""The journal of a publication: which whole files are to be moved into a folder, and which to be removed.

Until it exists, the folder is as it was. From then on the new files count: whoever opens the folder next, or
writes to it, makes the moves that a killed run did not.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from msd.files import schema
from msd.files.disk import sync

JOURNAL, NEW = "journal.json", "new"
FORMAT = 1
LARGEST = 1 << 20
"""Bytes of a journal; ours have a few kB."""


@dataclass(frozen=True)
class Journal:
    """The content of journal.json: paths in the folder. The last of `moves` is the file that lists others."""

    moves: tuple[str, ...]
    removals: tuple[str, ...] = ()
    format: int = FORMAT


def write_journal(staging: Path, journal: Journal) -> None:
    """Write the journal of a staging folder atomically; raises OSError, and ValueError for a bad name."""
    _check(journal, staging / JOURNAL)
    partial = staging / f"{JOURNAL}.part"
    partial.write_text(schema.dump(journal), "utf-8")
    sync(partial)
    os.rename(partial, staging / JOURNAL)
    sync(staging)


def complete_journal(staging: Path, place: Path) -> None:
    """Make the moves and removals of a staging folder's journal in the folder `place`, then delete it.

    Does what a killed run did not. The last file is absent while the others change. Raises OSError, and
    ValueError for a journal that is damaged or leads out of the folder; the journal then stays.
    """
    journal = _read(staging / JOURNAL)
    waiting = [name for name in journal.moves if os.path.lexists(staging / NEW / name)]
    if waiting:
        (place / waiting[-1]).unlink(missing_ok=True)
    for name in waiting:
        _make_folders(place, name)
        os.replace(staging / NEW / name, place / name)
    for name in journal.removals:
        _remove(place, name)
    for folder in {(place / name).parent for name in journal.moves}:
        sync(folder)
    (staging / JOURNAL).unlink()


def _read(path: Path) -> Journal:
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} has more than {LARGEST} bytes, and is no journal of msd")
    journal = schema.load(Journal, path, FORMAT, "a journal")
    _check(journal, path)
    return journal


def _check(journal: Journal, path: Path) -> None:
    """Refuse names that lead out of the folder: a journal may come from an untrusted source."""
    for name in (*journal.moves, *journal.removals):
        parts = PurePosixPath(name).parts
        if not parts or {"..", "/"} & set(parts) or "\0" in name:
            raise ValueError(f"{path} names {name!r}, which is not a file in the folder")


def _make_folders(place: Path, name: str) -> None:
    """Make the folders around a file; a link among them could lead anywhere."""
    for parent in reversed([*PurePosixPath(name).parents][:-1]):
        if (place / parent).is_symlink():
            raise ValueError(f"{place / parent} is a link, and should be a folder")
        (place / parent).mkdir(exist_ok=True)


def _remove(place: Path, name: str) -> None:
    """Remove a file, and the folders around it that become empty."""
    folders = [place / parent for parent in [*PurePosixPath(name).parents][:-1]]
    if any(folder.is_symlink() for folder in folders) or (place / name).is_dir():
        return
    (place / name).unlink(missing_ok=True)
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
