"""Compiled programs in the user's cache folder, or in MSD_CACHE: a file is compiled once for a GPU.

    programs/KEY/program.json    the program, and the SHA-256 of each constant
    programs/KEY/NUMBER.bin      a buffer of constants as it is in the GPU's memory

An entry's key is a fingerprint of the file's place, size and times, the optimisations and our code, and one
of the GPU and its driver. Its constants are written as they are packed for the GPU, and it gets its name
when it is whole. Deleting entries only costs time. The pipelines that a driver makes of WGSL are its own to
keep: neither wgpu 0.32 nor wgpudawn 0.32 has a cache for them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from msd.errors import BadBundle, OutputUnwritable
from msd.files import schema
from msd.files.cache import cache_root
from msd.files.fingerprint import code_fingerprint, fingerprint
from msd.files.scratch import is_scratch
from msd.files.staging import STAGING, beside, staging_folder, sweep
from msd.gpu.device import OpenDevice
from msd.gpu.program import Constant, Program
from msd.gpu.store import NAME, Shard, StoredProgram, describe_program, described_program
from msd.gpu.switches import Switches

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array

FORMAT = 1
MOST_BYTES = 8 << 30
"""The most bytes of all entries; the least recently used are deleted first."""
CODE = ("msd/gpu", "msd/graph")


@dataclass(frozen=True)
class CachedProgram:
    """The content of an entry's program.json: a program of a file of `operations`."""

    operations: int
    program: StoredProgram
    format: int = FORMAT


def entry_of(path: Path, device: OpenDevice, switches: Switches) -> Path | None:
    """Return the folder of a file's program, there or not; None for a file that is gone after this run."""
    file = path.resolve()
    if is_scratch(file):
        return None
    opened = fingerprint((device.gpu, device.name, device.api, device.driver))
    return cache_root() / "programs" / f"{_key_of_file(file, switches)}{opened[:16]}"


def is_compiled(path: Path, switches: Switches) -> bool:
    """Return whether there is an entry of a file, for this GPU or another; False for a file that is gone."""
    try:
        entries = (cache_root() / "programs").glob(f"{_key_of_file(path.resolve(), switches)}*/{NAME}")
        return next(entries, None) is not None
    except OSError:
        return False


def _key_of_file(file: Path, switches: Switches) -> str:
    facts = file.stat()
    identity = (str(file), facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)
    return fingerprint([identity, switches, code_fingerprint(*CODE)])[:16]


def read_entry(entry: Path) -> tuple[Program, int] | None:
    """Return the program of an entry and the operations of its file, None where there is no entry.

    Raises BadBundle for one that is damaged; a constant's `load` raises it too.
    """
    try:
        cached: CachedProgram = schema.load(CachedProgram, entry / NAME, FORMAT, "a program")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise BadBundle(f"{entry / NAME} cannot be read ({problem})") from None
    with suppress(OSError):
        os.utime(entry / NAME)
    return described_program(cached.program, entry, _load), cached.operations


@contextmanager
def written_entry(entry: Path, program: Program, operations: int, half: bool) -> Iterator[Program]:
    """Yield a program whose constants are written to a new entry as they are loaded in the `with` block.

    The entry is there afterwards, instead of what was at its place, if all of them were loaded and the disk
    took them. Where another process writes the entry, or the disk has no room, the program itself is yielded.
    """
    with ExitStack() as stack:
        staging = _staging(stack, entry, program)
        if staging is None:
            yield program
            return
        writer = _EntryWriter(staging / "new", program)
        yield replace(program, constants=tuple(map(writer.kept, program.constants)))
        with suppress(OSError):
            writer.finish(operations, half)
            forget(entry)
            os.rename(staging / "new", entry)
            _make_room(entry.parent)


def forget(entry: Path) -> None:
    """Delete an entry; program.json goes first, without which there is none."""
    with suppress(OSError):
        (entry / NAME).unlink(missing_ok=True)
        shutil.rmtree(entry)


def _staging(stack: ExitStack, entry: Path, program: Program) -> Path | None:
    """Return a folder for a new entry until the stack closes, None where there can be none."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        for left in entry.parent.glob(f".*{STAGING}"):
            sweep(left)
        if program.weight_bytes > min(MOST_BYTES, shutil.disk_usage(entry.parent).free // 2):
            return None
        folder = stack.enter_context(staging_folder(beside(entry), entry))
        (folder / "new").mkdir()
    except (OSError, OutputUnwritable):
        return None
    return folder


class _EntryWriter:
    """The files of a program's constants in a folder."""

    def __init__(self, folder: Path, program: Program) -> None:
        self._folder, self._program = folder, program
        self._shards: dict[Constant, Shard] = {}

    def kept(self, constant: Constant) -> Constant:
        """Return the constant with a `load` that writes what it returns; threads may call several."""
        return replace(constant, load=partial(self._load, constant))

    def finish(self, operations: int, half: bool) -> None:
        """Write program.json; raises OSError where a constant was not written."""
        if len(self._shards) < len(self._program.constants):
            raise OSError(f"{self._folder} lacks constants")
        shards = [self._shards[constant] for constant in self._program.constants]
        cached = CachedProgram(operations, describe_program(self._program, shards, half))
        (self._folder / NAME).write_text(schema.dump(cached), "utf-8")

    def _load(self, constant: Constant) -> Array:
        loaded = constant.load()
        with suppress(OSError):
            self._shards[constant] = self._written(constant, loaded)
        return loaded

    def _written(self, constant: Constant, loaded: Array) -> Shard:
        content = np.ascontiguousarray(loaded).reshape(-1).view(np.uint8)
        path = self._folder / f"{constant.place.buffer}.bin"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.seek(constant.place.offset)
            file.write(content.data)
        place = replace(constant.place, bytes=content.size)
        return Shard(path.name, place, hashlib.sha256(content.data).hexdigest())


def _load(folder: Path, shard: Shard) -> Array:
    path = folder / shard.file
    try:
        with path.open("rb") as file:
            file.seek(shard.place.offset)
            content = file.read(shard.place.bytes)
    except OSError as problem:
        raise BadBundle(f"{path} cannot be read ({problem.strerror})") from None
    if hashlib.sha256(content).hexdigest() != shard.sha256:
        raise BadBundle(f"{path} is damaged: its SHA-256 is not the one in {NAME}")
    return np.frombuffer(content, np.uint8)


def _make_room(folder: Path) -> None:
    """Delete the least recently used entries beyond MOST_BYTES."""
    used = sorted(folder.glob(f"*/{NAME}"), key=lambda path: path.stat().st_mtime, reverse=True)
    total = 0
    for path in used:
        total += sum(file.stat().st_size for file in path.parent.iterdir())
        if total > MOST_BYTES:
            forget(path.parent)
