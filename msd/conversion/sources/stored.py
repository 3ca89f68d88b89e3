"""A weight file that is read long after its header and must not have changed in between."""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from msd.errors import BadCheckpoint
from msd.graph.ir.weights import Weights

HDF5 = b"\x89HDF\r\n\x1a\n"
"""The first bytes of an HDF5 file."""


@dataclass(frozen=True)
class Contents:
    """The contents of a file: its tensors by name, and its metadata."""

    tensors: dict[str, Weights]
    metadata: dict[str, str]


@dataclass(frozen=True)
class StoredFile:
    """The file at `path` in the version with `stamp`; messages call it a `kind`: "safetensors file"."""

    path: Path
    kind: str
    stamp: tuple[int, ...]

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.stamp[2]

    def wrong(self, what: str) -> BadCheckpoint:
        """Return the error that reports `what` is wrong with the file."""
        return unreadable(self.path, self.kind, what)

    def read(self, name: str, begin: int, size: int) -> memoryview:
        """Return `size` bytes from `begin`, which belong to the tensor `name`.

        Raises BadCheckpoint if the file has changed or is not readable.
        """
        if begin + size > self.size:
            raise self.wrong(f"{name} is cut short")
        try:
            with self.path.open("rb", buffering=0) as file:
                if stamp_of(file) != self.stamp:
                    raise self.wrong("it has changed since it was opened")
                file.seek(begin)
                content: Any = np.empty(size, np.uint8)  # NumPy asks for huge pages.
                read = _fill(file, memoryview(content))
        except OSError as error:
            raise self.wrong(f"{name} cannot be read ({error.strerror})") from error
        if read != size:
            raise self.wrong(f"{name} is cut short")
        return memoryview(content)


def _fill(file: FileIO, content: memoryview) -> int:
    """Read until `content` is full or the file ends; return the bytes read. One read takes at most 2 GB."""
    done = 0
    while count := file.readinto(content[done:]):
        done += count
    return done


def first_bytes(path: Path, count: int = 64) -> bytes:
    """Return the first bytes of a file, none of one that cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError:
        return b""


def stamp_of(file: BinaryIO) -> tuple[int, ...]:
    """Return properties that change when a file is replaced or modified."""
    stat = os.fstat(file.fileno())
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def unreadable(path: Path, kind: str, what: str) -> BadCheckpoint:
    """Return the error that reports `what` is wrong with the file at `path`."""
    return BadCheckpoint(f"{path} is not a readable {kind}: {what}")
