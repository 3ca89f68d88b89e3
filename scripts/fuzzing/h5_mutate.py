"""Mutants of .h5 files: fields of their structures changed, checksums right, and files of odd contents.

Names of structures are those of the HDF5 file format specification, version 3.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import numpy as np

from scripts.fuzzing.mutate import CHANGES, WORDS

SIGNATURES = re.compile(
    rb"\x89HDF|TREE|SNOD|HEAP|GCOL|OHDR|OCHK|FRHP|FHDB|FHIB|FSHD|FSSE|BTHD|BTLF|BTIN|EAHD|FAHD|SMTB|SMLI"
)
MEMORY = Path("/dev/shm")
FIXED = {b"\x89HDF": 44, b"FRHP": 142, b"BTHD": 34, b"FSHD": 78}
"""Bytes before the checksum of structures of one length."""

RECORDS = {5: 11, 6: 14, 8: 17, 9: 13}
"""Bytes of a record of a version 2 B-tree, by its type."""

MASK = 0xFFFFFFFF
UNDEFINED = 0xFFFFFFFFFFFFFFFF


def changed_h5(random: Random, seeds: list[bytes]) -> bytes:
    """Return a .h5 seed, or a file written anew, with other fields and right checksums."""
    anew = random.random() < 0.3
    seed = written(random) if anew else random.choice(seeds)
    content = bytearray(seed)
    for _ in range(random.randint(0, 2) if anew else random.randint(1, 5)):
        change = _field if random.random() < 0.8 else random.choice(CHANGES)
        change(random, content, seeds)
    if random.random() < 0.9:
        _sum(content, summed(seed))
    return bytes(content)


def _field(random: Random, content: bytearray, seeds: list[bytes]) -> None:
    """Change a number within some hundred bytes after the begin of a structure."""
    places = _structures(bytes(content))
    size = random.choice((1, 1, 2, 4, 8, 8))
    at = random.choice(places) + random.randrange(random.choice((16, 64, 300))) // size * size
    if at + size <= len(content):
        old = int.from_bytes(content[at : at + size], "little")
        values = (old + 1, old - 1, old * 2, old ^ 1 << random.randrange(8 * size), UNDEFINED, 0)
        known = (random.choice(places), random.choice(WORDS), len(content), *values)
        content[at : at + size] = (random.choice(known) % (1 << 8 * size)).to_bytes(size, "little")


def _structures(content: bytes) -> list[int]:
    """Return where structures begin: at signatures, and where aligned numbers point that may be addresses."""
    numbers = np.frombuffer(content[: len(content) // 8 * 8], "<u8")
    targets = numbers[(numbers < len(content)) & (numbers >= 48) & (numbers % 8 == 0)]
    found = [match.start() for match in SIGNATURES.finditer(content)]
    return sorted({0, *found, *(int(target) for target in targets)})


@lru_cache(16)
def summed(content: bytes) -> tuple[tuple[int, int], ...]:
    """Return begin and end of structures that their checksums follow: most of those of version 2 files."""
    found = []
    for match in SIGNATURES.finditer(content):
        begin = match.start()
        for end in (begin + length for length in _lengths(content[begin : begin + 32])):
            if lookup3(content[begin:end]) == int.from_bytes(content[end : end + 4], "little"):
                found.append((begin, end))
                break
    return tuple(found)


def _lengths(structure: bytes) -> Iterable[int]:
    """Return how many bytes may come before the checksum of a structure."""
    kind, byte = structure[:4], structure[5:6]
    if kind == b"OHDR" and byte:
        at = 6 + (16 if byte[0] & 0x20 else 0) + (4 if byte[0] & 0x10 else 0)
        width = 1 << (byte[0] & 3)
        return (at + width + int.from_bytes(structure[at : at + width], "little"),)
    if kind == b"BTLF" and byte:
        record = RECORDS.get(byte[0], 17)
        return range(6, 6 + 40 * record, record)
    return (FIXED[kind],) if kind in FIXED else ()


def _sum(content: bytearray, structures: tuple[tuple[int, int], ...]) -> None:
    for begin, end in structures:
        if end + 4 <= len(content):
            content[end : end + 4] = lookup3(bytes(content[begin:end])).to_bytes(4, "little")


def lookup3(key: bytes) -> int:
    """Return Bob Jenkins' lookup3 hash of `key`, HDF5's checksum (burtleburtle.net/bob/c/lookup3.c)."""
    a = b = c = (0xDEADBEEF + len(key)) & MASK
    words = np.frombuffer(key.ljust(max(12, -(-len(key) // 12) * 12), b"\0"), "<u4").tolist()
    for at in range(0, len(words), 3):
        a, b, c = ((value + word) & MASK for value, word in zip((a, b, c), words[at : at + 3], strict=True))
        for shift in (4, 6, 8, 16, 19, 4) if at + 3 < len(words) else ():
            a, b, c = b, (c + b) & MASK, ((a - c) & MASK) ^ _turned(c, shift)
    for shift in (14, 11, 25, 16, 4, 14, 24):
        a, b, c = b, ((c ^ b) - _turned(b, shift)) & MASK, a
    return b


def _turned(value: int, shift: int) -> int:
    return (value << shift | value >> 32 - shift) & MASK


def written(random: Random) -> bytes:
    """Return a file of odd contents: groups, lists, arrays and links of every kind, as h5py writes them."""
    version = random.choice(("earliest", "v108", "latest"))
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        path = Path(folder, "x")
        with h5py.File(path, "w", libver=(version, "latest")) as file:
            _model(random, file)
        return _untimed(path.read_bytes())


def _untimed(content: bytes) -> bytes:
    """Return a file without the times of its making, so that equal seeds make equal mutants."""
    changed, structures = bytearray(content), summed(content)
    for match in re.finditer(rb"OHDR\x02", content):
        if content[match.end()] & 0x20:
            changed[match.end() + 1 : match.end() + 17] = bytes(16)
    for match in re.finditer(rb"\x12\0\x08\0....\x01\0\0\0", content, re.DOTALL):
        changed[match.end() : match.end() + 4] = bytes(4)
    _sum(changed, structures)
    return bytes(changed)


def _model(random: Random, file: Any) -> None:
    root = file.create_group("model_weights") if random.random() < 0.2 else file
    layers = [f"layer_{i}" for i in range(random.choice((0, 1, 1, 2, 5)))]
    for name in layers:
        _layer(random, root.create_group(name))
    _list(random, root, "layer_names", layers)


def _layer(random: Random, group: Any) -> None:
    """Fill the group of a layer, and list what is in it."""
    kinds = ("kernel:0", "a/b/c:0", "ü", "x" * 300)
    names = [random.choice(kinds) + str(i) for i in range(random.randint(0, 4))]
    for name in names:
        with suppress(TypeError, ValueError, OSError, RuntimeError, AttributeError):  # h5py cannot write it
            random.choice(MEMBERS)(random, group, name)
    for i in range(random.choice((0, 0, 0, 20))):
        group.attrs[f"more {i}"] = "x" * random.choice((1, 5000))
    _list(random, group, "weight_names", names)


def _list(random: Random, group: Any, key: str, names: list[str]) -> None:
    """Write a list of names as an attribute, in one of the ways in which types and shapes can be odd."""
    encoded = [name.encode() for name in names]
    odd: tuple[Any, ...] = (
        *(names, names, "one", 3.5, [1, 2], [encoded], [], h5py.Empty("S3"), np.zeros(2, "V7")),
        *(np.array([(1, b"a")], [("x", "i4"), ("y", "S3")]), np.array(names, h5py.string_dtype("ascii"))),
        *(encoded * 40, encoded * 200, [b"x" * 60_000], [b"\xff\xfe"]),
        *(["/"], ["."], [".."], ["", "/" * 400], [f"{group.name}"]),
        *(np.array([True, False]), np.array([h5py.Reference()], h5py.ref_dtype), np.zeros((1,) * 30, "S4")),
    )
    value = encoded if random.random() < 0.7 else random.choice(odd)
    try:
        if random.random() < 0.9:
            group.attrs[key] = value
        else:
            group.attrs[f"{key}0"], group.attrs[f"{key}1"] = value[:1], value[1:]
    except (TypeError, ValueError, OSError, RuntimeError):  # too large for an attribute of this version
        group.attrs[key] = encoded[:1]


def _array(random: Random, group: Any, name: str) -> None:
    kinds = ("f4", "f4", "f4", ">f8", "f2", "i1", "u8", "?", "c8", "g", "S5", "V9", "(2,3)f4", "f4,i2", "O")
    kind = random.choice(kinds)
    dtype = h5py.string_dtype() if kind == "O" else np.dtype(kind)
    shape = tuple(random.choice((0, 1, 1, 2, 3)) for _ in range(random.choice((0, 1, 1, 2, 4))))
    dataset = group.create_dataset(name, shape, dtype)
    if kind != "O":
        dataset[...] = np.zeros((), dtype)


def _huge(random: Random, group: Any, name: str) -> None:
    shape = random.choice(((1 << 40,), (1 << 31, 1 << 31), (3, 1 << 20), (1,) * 32, (0, 1 << 60)))
    chunked, endless = {"chunks": (1,) * len(shape)}, {"maxshape": (None,) * len(shape)}
    options = random.choice(({}, chunked, {"fillvalue": 3}, endless))
    group.create_dataset(name, shape, random.choice(("f4", "S100000")), **options)


def _filtered(random: Random, group: Any, name: str) -> None:
    size = random.choice((1, 7, 3000))
    filters: dict[str, Any] = random.choice(
        ({"compression": "gzip"}, {"compression": "lzf"}, {"scaleoffset": 2}, {"shuffle": True})
    )
    if random.random() < 0.3:
        filters["fletcher32"] = True
    group.create_dataset(name, data=np.zeros(size, "i4"), chunks=(max(1, size // 3),), **filters)


def _linked(random: Random, group: Any, name: str) -> None:
    soft = (h5py.SoftLink("/"), h5py.SoftLink(name), h5py.ExternalLink("/etc/hostname", "x"))
    group[name] = random.choice((*soft, group, group.file, np.dtype("f4")))


def _elsewhere(random: Random, group: Any, name: str) -> None:
    if random.random() < 0.5:
        pieces = [("/etc/hostname", 0, 12), ("nowhere", 1 << 40, 1 << 40)]
        group.create_dataset(name, (3,), "<f4", external=pieces[: random.randint(1, 2)])
        return
    layout = h5py.VirtualLayout((3, 4), "<f4")
    layout[0] = h5py.VirtualSource(random.choice((".", "/etc/hostname")), "x", (4,))
    group.create_virtual_dataset(name, layout)


MEMBERS = (_array, _array, _array, _array, _huge, _filtered, _linked, _elsewhere)
"""What the name of an array can stand for."""
