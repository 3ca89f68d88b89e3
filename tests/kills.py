"""Ends a process at the n-th of its file-system calls, for every n that there is, by SIGKILL or a power cut.

A power cut also takes half of each file that was not synced. Names are lost from the last to the first, as a
file system that journals them in order loses them (ext4, XFS): so what is left of them is what was there at
an earlier call, and earlier calls are tried, too.
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msd.errors import OutputExists

Work = Callable[[Path], object]
Files = dict[str, bytes]

OURS = ".msd-part"
MINE = "mine of nobody's business.txt"
CHANGES = ("os.", "shutil.", "fcntl.flock", "open", "tempfile.")
"""The beginnings of audit events that are calls of the file system."""


@dataclass(frozen=True)
class Case:
    """Something that publishes files in a folder, where `prepare` has put what is there before.

    `read` opens the output as a command does that reads it. `output` is its name in the folder.
    """

    name: str
    prepare: Work
    work: Work
    read: Work
    output: str = "out"


@dataclass(frozen=True)
class Counts:
    """At how many calls a case was killed, and after how many of these the old or the new output counted."""

    kills: int
    old: int
    new: int


def survive(case: Case, folder: Path, power: bool = False) -> Counts:
    """Kill a case at each of its calls, or cut the `power`, and check what is left; returns the counts.

    After each kill the output is, when it is read, entirely the old one or entirely the new one; the next
    run succeeds and leaves the same bytes as one that nothing killed, and nothing else of ours.
    """
    with patch.object(os, "fsync", lambda descriptor: None):
        return _survive(case, folder, power)


def _survive(case: Case, folder: Path, power: bool) -> Counts:
    start, new = folder / "start", folder / "new"
    start.mkdir(parents=True)
    case.prepare(start)
    before = files(start / case.output)
    shutil.copytree(start, new, symlinks=True)
    case.work(new)
    after = files(new / case.output)
    assert after not in ({}, before), f"{case.name} writes nothing"
    outcomes = []
    for n in range(1, 1000):
        place = folder / str(n)
        if not _killed(case.work, start, place, n, power):
            break
        outcomes.append(_read(case, place, before, after))
        _rerun(case, place, after)
        shutil.rmtree(place)
    return Counts(len(outcomes), outcomes.count(False), outcomes.count(True))


def _read(case: Case, place: Path, before: Files, after: Files) -> bool:
    """Return whether the output, when it is read, is the new one; it is else the old one, and never both."""
    copy = place.with_name(f"{place.name}-read")
    shutil.copytree(place, copy, symlinks=True)
    case.read(copy)
    found = files(copy / case.output)
    assert found in (before, after), f"{case.name} {place.name}: {sorted(found)}"
    shutil.rmtree(copy)
    return found == after


def _rerun(case: Case, place: Path, after: Files) -> None:
    try:
        case.work(place)
    except OutputExists:
        assert files(place / case.output) == after
    assert files(place / case.output) == after, f"{case.name} {place.name}"
    left = [path for path in place.rglob("*") if path.name.endswith(OURS)]
    assert not left, f"{case.name} {place.name} leaves {left}"


def files(output: Path) -> Files:
    """Return the bytes of what counts as output: not what is still staged."""
    if output.is_file():
        return {output.name: output.read_bytes()}
    paths = [path for path in output.rglob("*") if path.is_file()]
    inside = {path.relative_to(output).as_posix(): path.read_bytes() for path in paths}
    return {name: data for name, data in inside.items() if OURS not in name}


def _killed(work: Work, start: Path, place: Path, n: int, power: bool) -> bool:
    """Do the work in a copy of `start` and be killed at the n-th call; return False if it ends before."""
    shutil.copytree(start, place, symlinks=True)
    child = os.fork()
    if child == 0:
        try:
            _kill_at(n, place, power)
            work(place)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the work failed without being killed"
    return False


def _kill_at(n: int, place: Path, power: bool) -> None:
    """Kill this process before its n-th call that concerns `place`: before, and for a new file also after.

    That is when it is opened and empty.
    """
    count, around, on_disk = [0], os.fsencode(place), {_version(path.stat()) for path in _all_files(place)}

    def called() -> None:
        count[0] += 1
        if count[0] == n:
            _end(place, on_disk if power else None)

    def concerns(argument: object) -> bool:
        return isinstance(argument, str | bytes | os.PathLike) and os.fsencode(argument).startswith(around)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "fcntl.flock" or (event.startswith(CHANGES) and any(map(concerns, arguments))):
            called()

    def then(call: Callable[..., Any]) -> Callable[..., Any]:
        def open_and_count(file: Any, *arguments: Any, **options: Any) -> Any:
            opened = call(file, *arguments, **options)
            if concerns(file) and opened.writable():
                called()
            return opened

        return open_and_count

    def sync(descriptor: int) -> None:  # what is left does not depend on this machine's disk
        called()
        on_disk.add(_version(os.fstat(descriptor)))

    os.fsync, builtins.open, io.open = sync, then(builtins.open), then(io.open)  # type: ignore[assignment]
    sys.addaudithook(hook)


def _end(place: Path, on_disk: set[tuple[int, ...]] | None) -> None:
    """Kill this process; with the power goes half of each file whose version is not `on_disk`."""
    if on_disk is not None:
        for path in _all_files(place):
            if _version(path.stat()) not in on_disk:
                os.truncate(path, path.stat().st_size // 2)
    os.kill(os.getpid(), signal.SIGKILL)


def _all_files(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_file() and not path.is_symlink()]


def _version(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
