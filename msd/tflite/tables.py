"""Checks on the tables of a flatbuffer before they are unpacked.

A table with a field newer than this schema is refused, because reading would silently drop it. A file whose
tables refer to each other more often than its size allows is refused, because it could unpack to any size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from ai_edge_litert import schema_py_generated as schema
from flatbuffers.number_types import SOffsetTFlags, VOffsetTFlags
from flatbuffers.table import Table as Packed

from msd.ir.opset import enum_names

MOST_TABLES = 50_000
"""Beside one for each `TABLE_BYTES`; a U-Net has some 10,000, and 10,000 take a second to unpack."""

TABLE_BYTES = 64
"""So few have the graphs that audits make, which keep every intermediate tensor."""

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
    tables: int
    numbers: int = MOST_NUMBERS

    def take(self, bytes: int, tables: int = 0, numbers: int = 0) -> None:
        self.bytes -= bytes
        self.tables -= tables
        self.numbers -= numbers
        if self.bytes < 0:
            raise ValueError("its tables refer to the same places again and again")
        if self.tables < 0:
            raise ValueError(f"it has more tables than {MOST_TABLES} and one for each {TABLE_BYTES} bytes")
        if self.numbers < 0:
            raise ValueError(f"it has more than {MOST_NUMBERS} numbers in shapes, indices and options")


def check_tables(model: Any, size: int) -> None:
    """Raise ValueError if `model`, in a file of `size` bytes, has unknown fields or repeats its tables.

    Every table, vector and string counts each time that something refers to it, and all that a file holds
    once fits into its size; twice that is allowed, for what writers share.
    """
    most = MOST_TABLES + size // TABLE_BYTES
    room, waiting = _Room(2 * size, most), [(model, "Model")]
    present = dict[tuple[str, int], tuple[_Field, ...]]()
    while waiting:
        table, name = waiting.pop()
        room.take(4, tables=1)
        vtable = table._tab.Pos - table._tab.Get(SOffsetTFlags, table._tab.Pos)
        if (name, vtable) not in present:
            _require_known_fields(table._tab, name, vtable)
            present[name, vtable] = tuple(field for field in _fields(name) if _is_present(table, field))
        for field in present[name, vtable]:
            waiting += _within(table, name, field, room)


def _is_present(table: Any, field: _Field) -> bool:
    """Return whether a table has a field, as all tables of one layout have it or lack it."""
    if field.length is None:
        return getattr(table, field.accessor)() is not None
    return not getattr(table, field.accessor + "IsNone")()


def _within(table: Any, name: str, field: _Field, room: _Room) -> Iterable[tuple[Any, str]]:
    """Return the tables in a field, with their names; take what its vector or string needs."""
    if field.length is None:
        return _single(getattr(table, field.accessor)(), table, field, room)
    count = getattr(table, field.length)()
    if not count:
        return ()
    if field.array is None:
        return _elements(table, field, count, room)
    room.take(getattr(table, field.array)().nbytes, numbers=0 if field.name in ARRAYS else count)
    if name == "Tensor" and count > MOST_AXES:
        raise ValueError(f"a tensor has {count} axes, and at most {MOST_AXES} are supported")
    return ()


def _elements(table: Any, field: _Field, count: int, room: _Room) -> Iterator[tuple[Any, str]]:
    element = getattr(table, field.accessor)
    for i in range(count):
        room.take(4)
        yield from _single(element(i), table, field, room)


def _single(value: Any, table: Any, field: _Field, room: _Room) -> Iterable[tuple[Any, str]]:
    """Return the table that a value is, if it is one, with its name; take the bytes of a string."""
    if value is None:
        return ()
    if isinstance(value, bytes):
        room.take(len(value))
        return ()
    if not isinstance(value, Packed):
        return ((value, type(value).__name__),)
    name = enum_names(UNIONS[field.name]).get(getattr(table, field.accessor + "Type")() or -1)
    if name is None:
        return ()
    found = getattr(schema, name)()
    found.Init(value.Bytes, value.Pos)
    return ((found, name),)


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


@dataclass(frozen=True)
class _Field:
    """A field that is no plain number: the schema's functions that return it, its length, and its array.

    Only vectors have a `length`, and only vectors of numbers an `array`.
    """

    name: str
    accessor: str
    length: str | None
    array: str | None


@cache
def _fields(table: str) -> tuple[_Field, ...]:
    """Return the fields of a table that are tables, vectors or strings."""
    kind, defaults = getattr(schema, table), vars(getattr(schema, table + "T")())
    found = []
    for name in (name for name, default in defaults.items() if default is None):
        accessor = name[0].upper() + name[1:]
        functions = (accessor + ending for ending in ("Length", "AsNumpy"))
        length, array = (each if hasattr(kind, each) else None for each in functions)
        found.append(_Field(name, accessor, length, array))
    return tuple(found)


def _require_known_fields(table: Packed, name: str, vtable: int) -> None:
    """Refuse a table, laid out as `vtable` says, with a field that the schema lacks."""
    fields = table.Get(VOffsetTFlags, vtable) // 2 - 2
    if any(table.Offset(4 + 2 * n) for n in range(_known_fields(name), fields)):
        raise ValueError(f"its table {name} has a field newer than the schema known here")
