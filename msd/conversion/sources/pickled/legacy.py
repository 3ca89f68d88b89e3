"""The format of torch.save before torch 1.6, and with `_use_new_zipfile_serialization=False` since.

Five pickles follow each other: a magic number, a version, facts about the system, what was saved, and the
keys of its storages; then, for each key, the number of elements as int64, and the elements
(`_legacy_save` in torch/serialization.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msd.conversion.sources.pickled.machine import BadPickle, Described, Global, describe
from msd.conversion.sources.pickled.saved import Saved, flattened
from msd.conversion.sources.pickled.tensor import Storage, storage_width
from msd.conversion.sources.stored import StoredFile, stamp_of, unreadable

KIND = "torch checkpoint"
MAGIC = bytes.fromhex("8a0a6cfc9c46f9206aa850192e")
"""The opcodes of 0x1950a86a20f9469cfc6c after those of the protocol: a LONG1 of ten bytes, and STOP."""

PROTOCOL = 2
"""Bytes of a pickle's opcode for its protocol."""

LONGEST = 32 << 20
"""Bytes of all pickles; those of a Stable Diffusion checkpoint have some 300 kB."""


def is_legacy(start: bytes) -> bool:
    """Whether a file that begins so has this format."""
    return start[PROTOCOL:].startswith(MAGIC)


def open_legacy(path: Path) -> Saved:
    """Return what a file of this format holds; reads only its pickles. Raises BadCheckpoint."""
    try:
        with path.open("rb") as raw:
            file, head = StoredFile(path, KIND, stamp_of(raw)), raw.read(LONGEST)
    except OSError as error:
        raise unreadable(path, KIND, f"it cannot be read ({error.strerror})") from error
    try:
        return _described(file, head)
    except BadPickle as error:
        raise file.wrong(f"of its pickles, {error}") from error


def _described(file: StoredFile, head: bytes) -> Saved:
    at = PROTOCOL + len(MAGIC)
    pickles: list[Described] = []
    for _ in range(4):
        pickles.append(describe(head[at:]))
        at += pickles[-1].size
    _, system, saved, keys = pickles
    if isinstance(system.value, dict) and system.value.get("little_endian") is False:
        raise file.wrong("its numbers are big-endian, and only little-endian ones are supported")
    if not isinstance(keys.value, list) or not all(isinstance(key, str) for key in keys.value):
        raise BadPickle("the list of storages is missing")
    storages = _storages(file, at, keys.value, _widths(saved))

    def storage(key: str) -> Storage:
        if key not in storages:
            raise file.wrong(f"it has no storage {key}")
        return storages[key]

    return flattened(file, storage, saved.value)


def _widths(saved: Described) -> dict[str, int]:
    """Return the bytes of an element of each storage, by its key."""
    widths = {}
    for each in saved.persistent:
        match each:
            case ("storage", Global() as kind, str(key), *_):
                widths[key] = storage_width(kind.name)
    return widths


def _storages(file: StoredFile, at: int, keys: list[str], widths: dict[str, int]) -> dict[str, Storage]:
    storages = {}
    for key in keys:
        if key not in widths:
            raise BadPickle(f"the storage {key} has no type")
        count = int.from_bytes(file.read(f"storage {key}", at, 8), "little", signed=True)
        size = count * widths[key]
        if count < 0 or at + 8 + size > file.size:
            raise file.wrong(f"its storage {key} exceeds the end of the file")
        storages[key] = Storage(f"storage {key}", at + 8, size, _unchecked)
        at += 8 + size
    return storages


def _unchecked() -> Any:
    """The format has no checksums."""
