"""What a process leaves that ends at the n-th of its file-system calls, for every n that there is.

It ends by SIGKILL or a power cut. One process does the work and waits at each call, while what is there is
copied; another that is killed half-way proves that such a copy is what SIGKILL leaves. What is the same as at
the call before is not tried twice.

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
import stat
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msd.errors import OutputExists

Work = Callable[[Path], object]
Files = dict[str, bytes]
Version = tuple[int, ...]
State = dict[str, tuple[int, bytes, bool]]

OURS = ".msd-part"
MINE = "mine of nobody's business.txt"
NEW, SAME = b"+", b"="
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
    outcomes: list[bool] = []
    with closing(_ends(case.work, start, folder / "working", power)) as ends:
        for left in ends:
            if left is not None:
                place = left.rename(folder / str(len(outcomes) + 1))
                outcome = _read(case, place, before, after)
                _rerun(case, place, after)
                shutil.rmtree(place)
            outcomes.append(outcome)
    _require_what_sigkill_leaves(case, start, folder / "killed", len(outcomes) // 2)
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


def _require_what_sigkill_leaves(case: Case, start: Path, place: Path, n: int) -> None:
    """Kill the work at its n-th call: the folder is then what was copied there."""
    copied = place.with_name("copied")
    with closing(_ends(case.work, start, place, False)) as ends:
        for left in islice(ends, n):
            if left is not None:
                shutil.rmtree(copied, ignore_errors=True)
                left.rename(copied)
    assert _state(place) == _state(copied)


def _ends(work: Work, start: Path, place: Path, power: bool) -> Generator[Path | None, None, None]:
    """Do the work in `place`, a copy of `start`; yield at each call what a process leaves that ends there.

    None: nothing else than at the call before. The process waits meanwhile, and is killed if nobody asks on.
    """
    left = place.with_name(f"{place.name}-left")
    shutil.copytree(start, place, symlinks=True)
    (told, tell), (heard, answer) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            on_disk = {_version(path.lstat()) for path in _all_files(place)}
            called = _copying(place, left, on_disk if power else None, partial(_ask, tell, heard))
            _hook(place, called, on_disk)
            work(place)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(tell)
    try:
        while said := os.read(told, 1):
            yield left if said == NEW else None
            os.write(answer, b".")
        _, status = os.waitpid(child, 0)
    except GeneratorExit:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        return
    finally:
        for descriptor in (told, heard, answer):
            os.close(descriptor)
    assert os.WEXITSTATUS(status) == 0, "the work failed without being killed"


def _ask(tell: int, heard: int, is_new: bool) -> None:
    """Say that a call is due, and wait until it may be done."""
    os.write(tell, NEW if is_new else SAME)
    os.read(heard, 1)


def _copying(
    place: Path, left: Path, on_disk: set[Version] | None, stop: Callable[[bool], None]
) -> Callable[[], None]:
    """Return what is called before each call: it copies what is there to `left`, if new, and stops."""
    busy, last = [False], list[State | None]([None])

    def called() -> None:
        if not busy[0]:
            busy[0] = True
            found = _state(place, on_disk)
            if is_new := found != last[0]:
                _copy(place, left, on_disk)
            last[0] = found
            stop(is_new)
            busy[0] = False

    return called


def _hook(place: Path, called: Callable[[], None], on_disk: set[Version]) -> None:
    """Have `called` before each call of this process that concerns `place`, and for a new file also after.

    That is when it is opened and empty. What is synced is added to `on_disk`.
    """
    around = os.fsencode(place)

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


def _state(place: Path, on_disk: set[Version] | None = None) -> State:
    """Return mode and content of all that is in a folder, and whether a power cut takes half of it."""

    def content(path: Path, mode: int) -> bytes:
        if stat.S_ISLNK(mode):
            return os.fsencode(os.readlink(path))
        return path.read_bytes() if stat.S_ISREG(mode) else b""

    found = {path.relative_to(place).as_posix(): (path, path.lstat()) for path in place.rglob("*")}
    return {
        name: (each.st_mode, content(path, each.st_mode), _is_lost(each, on_disk))
        for name, (path, each) in found.items()
    }


def _copy(place: Path, left: Path, on_disk: set[Version] | None) -> None:
    """Copy a folder; with the power goes half of each file whose version is not `on_disk`."""
    names: dict[int, str] = {}

    def copy(source: str, destination: str) -> None:
        found = os.lstat(source)
        if stat.S_ISREG(found.st_mode) and found.st_ino in names:
            os.link(names[found.st_ino], destination)
            return
        names[found.st_ino] = shutil.copy2(source, destination, follow_symlinks=False)
        if _is_lost(found, on_disk):
            os.truncate(destination, found.st_size // 2)

    shutil.copytree(place, left, symlinks=True, copy_function=copy)


def _is_lost(found: os.stat_result, on_disk: set[Version] | None) -> bool:
    return on_disk is not None and stat.S_ISREG(found.st_mode) and _version(found) not in on_disk


def _all_files(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_file() and not path.is_symlink()]


def _version(found: os.stat_result) -> Version:
    return found.st_ino, found.st_size, found.st_mtime_ns
