"""Publications: a folder changes from old to new in one step, whatever ends the process in between.

A new folder gets its name, with everything in it, by one rename. Into an existing folder the files are moved
one by one, by a journal that the next run completes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from msd.errors import OutputUnwritable
from msd.files.disk import real_place, sync, sync_tree
from msd.files.journal import JOURNAL, NEW, Journal, complete_journal, write_journal
from msd.files.staging import STAGING, beside, discard, is_ours, locked, staging_folder, sweep
from msd.files.targets import require_targets
from msd.files.unwritable import raises_unwritable


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """Yield an empty folder on the disk of `out` for its files, and delete it afterwards in every case.

    First deletes the remains of a killed run. Raises OutputUnwritable if the place is not writable, or
    another run is using it.
    """
    recover(out)
    place = real_place(out)
    staging = place / STAGING if place.is_dir() else beside(place)
    with raises_unwritable(out, staging):
        staging.parent.mkdir(parents=True, exist_ok=True)
        with staging_folder(staging, out):
            (staging / NEW).mkdir()
            try:
                yield staging / NEW
            finally:
                if (staging / JOURNAL).exists():  # interrupted between two moves
                    _complete(staging, out)


def publish(new: Path, out: Path, last: str, stale: Collection[str] = ()) -> None:
    """Put all files of `new`, which `staged` yielded, into `out`, and remove the files `stale` there.

    In an existing folder the file `last` exists only beside complete others, and everything else that is
    there stays. Raises OSError and OutputUnwritable, before anything has changed.
    """
    place = real_place(out)
    sync_tree(new)
    if new.parent.parent != place:
        os.rename(new, place)
        sync(place.parent)
        return
    files = [path.relative_to(new).as_posix() for path in new.rglob("*") if not path.is_dir()]
    require_targets(out, files)
    moves = sorted(files, key=lambda name: (name == last, name))
    write_journal(new.parent, Journal(tuple(moves), tuple(sorted({*stale} - {*files}))))
    _complete(new.parent, out)


def complete(folder: Path) -> None:
    """Complete a publication into `folder` that was cut off; whatever reads the folder calls this first.

    Raises OutputUnwritable where that is impossible, such as in a folder that may only be read.
    """
    staging = real_place(folder) / STAGING
    if not os.path.isfile(staging / JOURNAL):
        return
    try:
        if is_ours(staging):
            with locked(staging, folder):
                _complete(staging, folder)
                discard(staging)
    except OSError as problem:
        raise OutputUnwritable(_cut_off(folder, problem.strerror)) from problem


def recover(out: Path) -> None:
    """Complete a publication into `out` that was cut off, and delete what killed runs left of others."""
    complete(out)
    place = real_place(out)
    sweep(place / STAGING)
    sweep(beside(place))


def contents(folder: Path) -> list[Path]:
    """Return what is in a folder, in order, except for a staging folder of ours; raises OSError."""
    return sorted(path for path in folder.iterdir() if path.name != STAGING or not is_ours(path))


def _complete(staging: Path, out: Path) -> None:
    try:
        complete_journal(staging, real_place(out))
    except ValueError as problem:
        raise OutputUnwritable(_cut_off(out, str(problem))) from problem


def _cut_off(folder: Path, reason: str | None) -> str:
    return (
        f"a run that wrote {folder} was cut off, and what it left in {STAGING} cannot be put in place"
        f" ({reason}); run again as a user who may write there"
    )
