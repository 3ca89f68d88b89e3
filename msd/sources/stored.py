"""A file that weights are read from long after its header was: what was there then must still be there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from msd.errors import BadCheckpoint
from msd.ir.weights import Weights


@dataclass(frozen=True)
class Contents:
    """What a file holds: its tensors by name, and what it `said` of them in words, such as its metadata."""

    tensors: dict[str, Weights]
    said: dict[str, str]


@dataclass(frozen=True)
class StoredFile:
    """The file at `path`, a `kind` such as "safetensors file", as it was when it had `stamp`."""

    path: Path
    kind: str
    stamp: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many bytes it had."""
        return self.stamp[2]

    def wrong(self, what: str) -> BadCheckpoint:
        """Return the error that says `what` is wrong with the file."""
        return unreadable(self.path, self.kind, what)

    def read(self, name: str, begin: int, size: int) -> bytes:
        """Return `size` bytes from `begin`, which belong to the tensor `name`.

        Raises BadCheckpoint if the file has changed, or cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                if stamp_of(file) != self.stamp:
                    raise self.wrong("it has changed since it was opened")
                file.seek(begin)
                read = file.read(size)
        except OSError as error:
            raise self.wrong(f"{name} cannot be read ({error.strerror})") from error
        if len(read) != size:
            raise self.wrong(f"{name} is cut short")
        return read


def stamp_of(file: BinaryIO) -> tuple[int, ...]:
    """Return what differs once a file has been replaced or written to."""
    stat = os.fstat(file.fileno())
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def unreadable(path: Path, kind: str, what: str) -> BadCheckpoint:
    """Return the error that says `what` is wrong with the file at `path`."""
    return BadCheckpoint(f"{path} is not a readable {kind}: {what}")


def as_float32(weights: Weights) -> Weights:
    """Return weights of any float dtype as float32, and others as they are."""
    return weights.astype(np.float32) if _is_float(weights.dtype) else weights


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype == ml_dtypes.bfloat16
