"""The places of files that are about to be written: whether each can become a file."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from msd.errors import OutputExists, OutputUnwritable
from msd.files.disk import real_place
from msd.files.staging import beside, require_ours, sweep
from msd.files.unwritable import is_full, raises_unwritable

KINDS = {
    stat.S_IFDIR: "Is a directory",
    stat.S_IFLNK: "Is a link",
    stat.S_IFCHR: "Is a device",
    stat.S_IFBLK: "Is a device",
    stat.S_IFIFO: "Is a pipe",
    stat.S_IFSOCK: "Is a socket",
    stat.S_IFREG: "Is a file",
}


def require_writable(path: Path, force: bool) -> None:
    """Raise OutputExists for a file that exists, unless `force`, and OutputUnwritable for one that cannot be.

    What msd-convert wrote is not replaced by anything else. Deletes what a killed run left of the same file.
    """
    place = real_place(path)
    if path.exists() and not path.is_file():
        raise OutputUnwritable(_wrong_kind(path, path.stat()))
    if not place.parent.is_dir() or not _may_write(place.parent):
        raise OutputUnwritable(f"cannot write {path}: {path.parent} is not a folder that can be written to")
    require_file(place, path, place.parent)
    if place.exists() and _is_converted(place):
        raise OutputUnwritable(f"{path} belongs to the conversion in {path.parent}; give another name")
    with raises_unwritable(path, beside(place)):
        require_ours(beside(place), path)
        sweep(beside(place))
    if place.exists() and not force:
        raise OutputExists(f"{path} exists; --force replaces it")


def _is_converted(place: Path) -> bool:
    """Whether a file is a manifest or a network in a folder that has both."""
    has_both = (place.parent / "manifest.json").is_file() and any(place.parent.glob("*.tflite"))
    return has_both and (place.name == "manifest.json" or place.suffix == ".tflite")


def require_targets(out: Path, names: Iterable[str]) -> None:
    """Raise OutputUnwritable for the first of the files `names` that cannot be put into the folder `out`.

    The folder need not be there: then the one around it is looked at.
    """
    place = real_place(out)
    if not os.path.lexists(place):
        around = next(parent for parent in place.parents if os.path.lexists(parent))
        if not around.is_dir() or not _may_write(around):
            raise OutputUnwritable(f"cannot write {out}: {around} is not a folder that can be written to")
        return
    if not _may_write(place):
        raise OutputUnwritable(f"{out} cannot be written (Permission denied)")
    for name in names:
        for parent in reversed([*Path(name).parents][:-1]):
            _require_folder(place / parent, out / parent, place)
        if (place / name).parent.is_dir():
            require_file(place / name, out / name, place)


def require_file(place: Path, path: Path, folder: Path) -> None:
    """Raise OutputUnwritable where `place` is neither free nor a file that can be replaced.

    `path` is its name in messages. It has to be on the disk of `folder`.
    """
    facts = _facts(place)
    if facts is None:
        return
    if not stat.S_ISREG(facts.st_mode):
        raise OutputUnwritable(_wrong_kind(path, facts))
    _require_own(facts, place, path)
    _require_same_disk(facts, path, folder)


def _require_folder(place: Path, path: Path, folder: Path) -> None:
    """Raise OutputUnwritable where `place` is neither free nor a folder that can be written to."""
    facts = _facts(place)
    if facts is None:
        return
    if not stat.S_ISDIR(facts.st_mode):
        kind = KINDS[stat.S_IFMT(facts.st_mode)]
        raise OutputUnwritable(f"{path} cannot be written to ({kind}); a folder of that name belongs there")
    if not _may_write(place):
        raise OutputUnwritable(f"{path} cannot be written to (Permission denied)")
    _require_same_disk(facts, path, folder)


def _wrong_kind(path: Path, facts: os.stat_result) -> str:
    return f"{path} cannot be written ({KINDS[stat.S_IFMT(facts.st_mode)]}); give the name of a file"


def _facts(place: Path) -> os.stat_result | None:
    try:
        return place.lstat()
    except FileNotFoundError:
        return None


def _may_write(folder: Path) -> bool:
    """Whether a file can be made in a folder: permissions do not tell of all, and root has every one."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return os.access(folder, os.W_OK | os.X_OK, effective_ids=True)
    except OSError as problem:
        return is_full(problem)  # writing says so, and may need less by then


def _require_own(facts: os.stat_result, place: Path, path: Path) -> None:
    """Refuse another user's file in a sticky folder, such as the system's temporary one."""
    around, user = place.parent.stat(), os.geteuid()
    if around.st_mode & stat.S_ISVTX and user not in (0, facts.st_uid, around.st_uid):
        raise OutputUnwritable(f"{path} cannot be written: it belongs to another user")


def _require_same_disk(facts: os.stat_result, path: Path, folder: Path) -> None:
    if facts.st_dev != folder.stat().st_dev:
        raise OutputUnwritable(f"{path} cannot be written: it is on another disk than {folder}")
