"""Which members of which classes a compiled class uses: read from its constant pool."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WIDTHS = {3: 4, 4: 4, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
UTF8, LONG, DOUBLE, CLASS, FIELD, METHOD, INTERFACE_METHOD, NAMED = 1, 5, 6, 7, 9, 10, 11, 12


Pool = dict[int, tuple[Any, ...]]


@dataclass(frozen=True)
class Use:
    """A member of the class `owner`; `descriptor` is the JVM's, such as (I)V."""

    owner: str
    name: str
    descriptor: str


@dataclass(frozen=True)
class JavaClass:
    """A class by its JVM name, what it extends and implements, what it declares, and what it uses."""

    name: str
    parents: tuple[str, ...]
    declares: frozenset[tuple[str, str]]
    uses: tuple[Use, ...]


def read_jar(path: Path) -> dict[str, JavaClass]:
    """Return the classes of a jar by name."""
    with zipfile.ZipFile(path) as jar:
        names = [name for name in jar.namelist() if name.endswith(".class") and "META-INF" not in name]
        return {found.name: found for found in (_read(jar.read(name)) for name in names)}


def _read(data: bytes) -> JavaClass:
    pool, at = _pool(data)
    _, this, parent, count = struct.unpack_from(">HHHH", data, at)
    interfaces = struct.unpack_from(f">{count}H", data, at + 8)
    parents = tuple(str(pool[pool[i][1]][1]) for i in (parent, *interfaces) if i)
    declares = frozenset(_declared(data, pool, at + 8 + 2 * count))
    return JavaClass(str(pool[pool[this][1]][1]), parents, declares, tuple(_uses(pool)))


def _pool(data: bytes) -> tuple[Pool, int]:
    """Return the constants, each with its kind, and where what follows them begins."""
    (count,) = struct.unpack_from(">H", data, 8)
    pool: Pool = {}
    at, i = 10, 1
    while i < count:
        kind = data[at]
        if kind == UTF8:
            (length,) = struct.unpack_from(">H", data, at + 1)
            pool[i] = (kind, data[at + 3 : at + 3 + length].decode("utf-8", "replace"))
            at += 3 + length
        elif kind in (LONG, DOUBLE):
            at, i = at + 9, i + 1
        else:
            width = WIDTHS[kind]
            pool[i] = (kind, *struct.unpack_from(">HH" if width == 4 else ">H", data, at + 1))
            at += 1 + width
        i += 1
    return pool, at


def _uses(pool: Pool) -> Iterator[Use]:
    for kind, *rest in pool.values():
        if kind in (FIELD, METHOD, INTERFACE_METHOD):
            name, descriptor = pool[rest[1]][1:]
            yield Use(pool[pool[rest[0]][1]][1], pool[name][1], pool[descriptor][1])


def _declared(data: bytes, pool: Pool, at: int) -> Iterator[tuple[str, str]]:
    """Yield the name and the descriptor of each field and method."""
    for _ in ("fields", "methods"):
        (count,) = struct.unpack_from(">H", data, at)
        at += 2
        for _ in range(count):
            _, name, descriptor, attributes = struct.unpack_from(">HHHH", data, at)
            at += 8
            yield pool[name][1], pool[descriptor][1]
            for _ in range(attributes):
                (length,) = struct.unpack_from(">I", data, at + 2)
                at += 6 + length
