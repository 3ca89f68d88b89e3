"""Checks on the tables of a flatbuffer before they are unpacked.

A table with a field newer than this schema is refused, because reading would silently drop it. A file whose
tables refer to each other more often than its size allows is refused, because it could unpack to any size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from ai_edge_litert import schema_py_generated as schema
from flatbuffers.number_types import SOffsetTFlags, VOffsetTFlags
from flatbuffers.table import Table as Packed

from msd.ir.opset import enum_names

MOST_TABLES = 200_000
"""Far more than any file has; a U-Net has some 20,000, and each takes a kilobyte when it is unpacked."""

MOST_NUMBERS = 4_000_000
"""Of all vectors that become lists: shapes, indices, options."""

MOST_AXES = 32
ARRAYS = ("data", "scale", "zeroPoint", "min", "max", "customOptions")
"""Vectors that stay arrays in the file's own memory."""

UNIONS = {
    "builtinOptions": schema.BuiltinOptions,
    "builtinOptions2": schema.BuiltinOptions2,
    "details": schema.QuantizationDetails,
    "arraySegments": schema.SparseIndexVector,
    "arrayIndices": schema.SparseIndexVector,
}


@dataclass
class _Room:
    """What the tables of a file may still take: their bytes in the file, tables, and numbers in lists."""

    bytes: int
    tables: int = MOST_TABLES
    numbers: int = MOST_NUMBERS

    def take(self, bytes: int, tables: int = 0, numbers: int = 0) -> None:
        self.bytes -= bytes
        self.tables -= tables
        self.numbers -= numbers
        if self.bytes < 0:
            raise ValueError("its tables refer to the same places again and again")
        if self.tables < 0:
            raise ValueError(f"it has more than {MOST_TABLES} tables")
        if self.numbers < 0:
            raise ValueError(f"it has more than {MOST_NUMBERS} numbers in shapes, indices and options")


def check_tables(model: Any, size: int) -> None:
    """Raise ValueError if `model`, in a file of `size` bytes, has unknown fields or repeats its tables.

    Every table, vector and string counts each time that something refers to it, and all that a file holds
    once fits into its size; twice that is allowed, for what writers share.
    """
    room, waiting, known = _Room(2 * size), [(model, "Model")], set[tuple[str, int]]()
    while waiting:
        table, name = waiting.pop()
        room.take(4, tables=1)
        vtable = table._tab.Pos - table._tab.Get(SOffsetTFlags, table._tab.Pos)
        if (name, vtable) not in known:
            _require_known_fields(table._tab, name, vtable)
            known.add((name, vtable))
        for field in _fields(name):
            waiting += _within(table, name, field, room)


def _within(table: Any, name: str, field: str, room: _Room) -> Iterator[tuple[Any, str]]:
    """Yield the tables in a field, with their names; take what its vector or string needs."""
    accessor = field[0].upper() + field[1:]
    count = getattr(table, accessor + "Length", None)
    if count is None:
        yield from _single(getattr(table, accessor)(), table, field, room)
    elif hasattr(table, accessor + "AsNumpy"):
        _take_vector(table, name, field, room)
    else:
        for i in range(count()):
            room.take(4)
            yield from _single(getattr(table, accessor)(i), table, field, room)


def _take_vector(table: Any, name: str, field: str, room: _Room) -> None:
    accessor = field[0].upper() + field[1:]
    count = getattr(table, accessor + "Length")()
    if not count:
        return
    room.take(getattr(table, accessor + "AsNumpy")().nbytes, numbers=0 if field in ARRAYS else count)
    if name == "Tensor" and count > MOST_AXES:
        raise ValueError(f"a tensor has {count} axes, and at most {MOST_AXES} are supported")


def _single(value: Any, table: Any, field: str, room: _Room) -> Iterator[tuple[Any, str]]:
    """Yield the table that a value is, if it is one, with its name; take the bytes of a string."""
    if isinstance(value, bytes):
        room.take(len(value))
    elif isinstance(value, Packed):
        number = getattr(table, field[0].upper() + field[1:] + "Type")()
        if name := enum_names(UNIONS[field]).get(number if number else -1):
            found = getattr(schema, name)()
            found.Init(value.Bytes, value.Pos)
            yield found, name
    elif value is not None:
        yield value, type(value).__name__


class _Slots:
    """A stand-in for the flatbuffer builder that records the number of fields of a table."""

    def StartObject(self, slots: int) -> None:
        self.count = slots


@cache
def _known_fields(table: str) -> int:
    """Return the number of fields of a table in the schema, deprecated ones included."""
    slots = _Slots()
    getattr(schema, table + "Start")(slots)
    return slots.count


@cache
def _fields(table: str) -> tuple[str, ...]:
    """Return the fields of a table that are no plain number: tables, vectors, strings."""
    return tuple(name for name, default in vars(getattr(schema, table + "T")()).items() if default is None)


def _require_known_fields(table: Packed, name: str, vtable: int) -> None:
    """Refuse a table, laid out as `vtable` says, with a field that the schema lacks."""
    fields = table.Get(VOffsetTFlags, vtable) // 2 - 2
    if any(table.Offset(4 + 2 * n) for n in range(_known_fields(name), fields)):
        raise ValueError(f"its table {name} has a field newer than the schema known here")
