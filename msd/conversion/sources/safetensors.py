"""The safetensors format, read lazily (https://github.com/huggingface/safetensors#format).

Eight bytes give the length of the header. The header is JSON with the dtype, shape and offsets of each
tensor; the bytes follow without gaps. This module reads only the header; a tensor's bytes are read when it is
loaded.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from msd.conversion.sources.stored import Contents, StoredFile, stamp_of, unreadable
from msd.errors import BadCheckpoint
from msd.files import bounded
from msd.files.wording import counted
from msd.graph.ir.weights import Array, Weights

KIND = "safetensors file"
LONGEST_HEADER = bounded.TEXT_BYTES
"""Bytes; the header of a Stable Diffusion checkpoint has some 300 kB."""

MOST_TENSORS = 50_000
"""A Stable Diffusion checkpoint with EMA weights has some 2,000."""

MOST_AXES = 8
MOST_BYTES = 1 << 62

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}


def read_contents(path: Path) -> Contents:
    """Return the contents of a .safetensors file, with all float tensors as float32.

    Reads only the header; each `load()` opens the file and reads one tensor. Raises BadCheckpoint for a file
    that is missing, truncated or invalid.
    """
    try:
        with path.open("rb") as file:
            stored = StoredFile(path, KIND, stamp_of(file))
            size = os.fstat(file.fileno()).st_size
            head = file.read(8)
            length = int.from_bytes(head, "little")
            if len(head) < 8 or length > min(size - 8, LONGEST_HEADER):
                raise _bad(path, f"its header of {length} bytes does not fit into the file of {size} bytes")
            header = _parse(path, file.read(length))
    except OSError as error:
        raise _bad(path, f"it cannot be read ({error.strerror})") from error
    available = size - 8 - length
    described = {name: entry for name, entry in header.items() if name != "__metadata__"}
    if len(described) > MOST_TENSORS:
        raise _bad(path, f"it has {len(described)} tensors, and at most {MOST_TENSORS} are read")
    entries = {name: _entry(path, name, entry, available) for name, entry in described.items()}
    _require_contiguous(path, entries.values(), available)
    tensors = {name: _weights(stored, 8 + length, entry) for name, entry in entries.items()}
    return Contents(tensors, _metadata(header))


@dataclass(frozen=True)
class _Entry:
    """A tensor's entry in the header; `begin` and `end` count from the end of the header."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def _entry(path: Path, name: str, entry: Any, available: int) -> _Entry:
    """Return the checked `entry` of the header, in a file with `available` bytes of tensors."""
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [begin, end]}:
            pass
        case _:
            raise _bad(path, f"the header's entry for {name} lacks a dtype, a shape or two offsets")
    if dtype not in DTYPES:
        raise _bad(path, f"{name} has the dtype {dtype}, and only {', '.join(DTYPES)} are supported")
    if len(shape) > MOST_AXES:
        raise _bad(path, f"{name} has {len(shape)} axes, and at most {MOST_AXES} are supported")
    if not all(type(n) is int and 0 <= n <= MOST_BYTES for n in (*shape, begin, end)):
        raise _bad(path, f"{name} has a shape or offsets that are not integers from 0")
    if not begin <= end <= available:
        raise _bad(path, f"{name} lies at bytes {begin} to {end} of the {available} there are")
    needed = DTYPES[dtype].itemsize * math.prod(shape)
    if end - begin != needed:
        raise _bad(path, f"{name} has {counted(end - begin, 'byte')} where {dtype} {shape} needs {needed}")
    return _Entry(name=name, dtype=DTYPES[dtype], shape=tuple(shape), begin=begin, end=end)


def _weights(stored: StoredFile, start: int, entry: _Entry) -> Weights:
    """Return a tensor; the file's header ends at byte `start`."""

    def read() -> Array:
        read = stored.read(entry.name, start + entry.begin, entry.end - entry.begin)
        return np.frombuffer(read, entry.dtype).reshape(entry.shape)

    def read_rows(first: int, stop: int) -> Array:
        row = (entry.end - entry.begin) // entry.shape[0]
        read = stored.read(entry.name, start + entry.begin + first * row, (stop - first) * row)
        return np.frombuffer(read, entry.dtype).reshape(stop - first, *entry.shape[1:])

    return Weights.stored(
        shape=entry.shape,
        dtype=entry.dtype,
        read=read,
        history=f"{stored.path.name}:{entry.name}",
        read_rows=read_rows,
    )


def _metadata(header: Mapping[str, Any]) -> dict[str, str]:
    """Return the strings in `__metadata__`, and ignore other values, which the format does not allow."""
    metadata = header.get("__metadata__")
    items = metadata.items() if isinstance(metadata, dict) else ()
    return {key: value for key, value in items if isinstance(value, str)}


def _parse(path: Path, text: bytes) -> dict[str, Any]:
    """Return the parsed header; unlike `json` alone, refuses duplicate names."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        unique_pairs = dict(pairs)
        if len(unique_pairs) != len(pairs):
            counts = Counter(name for name, _ in pairs)
            twice = next(name for name, count in counts.items() if count > 1)
            raise _bad(path, f"its header names {twice} twice")
        return unique_pairs

    try:
        header = bounded.parse_json(text.decode("utf-8"), unique)
    except ValueError as error:
        raise _bad(path, f"its header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise _bad(path, "its header is not a JSON object")
    return header


def _require_contiguous(path: Path, entries: Iterable[_Entry], available: int) -> None:
    """Refuse tensors that overlap, and bytes that belong to no tensor."""
    position = 0
    for entry in sorted(entries, key=lambda e: (e.begin, e.end)):
        if entry.begin != position:
            what = "overlaps the tensor before it" if entry.begin < position else "comes after a gap"
            raise _bad(path, f"{entry.name} at byte {entry.begin} {what}, which ends at {position}")
        position = entry.end
    if position != available:
        raise _bad(path, f"its tensors end at byte {position} of {available}")


def _bad(path: Path, what: str) -> BadCheckpoint:
    return unreadable(path, KIND, what)
