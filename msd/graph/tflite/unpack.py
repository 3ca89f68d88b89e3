"""Unpacks a flatbuffer into the objects of TFLite's schema, and refuses what it cannot hold.

The objects are those of `schema.ModelT.InitFromObj`, which takes five times as long because it looks for each
field of each table anew; here tables of one layout share what is known of it.

A table with a field newer than this schema is refused, because reading would silently drop it. A file whose
tables refer to each other more often than its size allows is refused, because it could unpack to any size.
Format: https://flatbuffers.dev/internals/.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers.number_types import to_numpy_type

from msd.graph.ir.opset import enum_names

MOST_TABLES = 50_000
"""Beside one for each `TABLE_BYTES`; a U-Net has some 10,000."""

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

NUMBERS = {"b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"}
NUMBERS |= {"f4": "f", "f8": "d"}
"""Letters of `struct` by NumPy's names of types."""

INT32, UINT32 = struct.Struct("<i"), struct.Struct("<I")


@dataclass
class _Room:
    """What the tables of a file may still take: their bytes in the file, tables, and numbers in lists.

    Every table, vector and string counts each time that something refers to it. All that a file holds once
    fits into its size; twice that is allowed, for what writers share.
    """

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


def unpack_model(buffer: Any) -> Any:
    """Return the `ModelT` in `buffer` (bytes or a memory map); its vectors of numbers are views of it.

    Raises ValueError, struct.error or IndexError for a damaged file, ValueError for one with fields that the
    schema lacks, or that would take more room than its size allows.
    """
    return _Unpacker(buffer).table("Model", UINT32.unpack_from(buffer, 0)[0])


class _Unpacker:
    """Unpacks tables of one file; `layouts` has the present fields by a table's name and its vtable."""

    def __init__(self, buffer: Any) -> None:
        size = len(buffer)
        self.buffer, self.room = buffer, _Room(2 * size, MOST_TABLES + size // TABLE_BYTES)
        self.layouts = dict[tuple[str, int], list[tuple[_Field, int]]]()

    def table(self, name: str, place: int) -> Any:
        """Return the table called `name` at a place of the buffer."""
        self.room.take(4, tables=1)
        vtable = place - INT32.unpack_from(self.buffer, place)[0]
        if (name, vtable) not in self.layouts:
            self.layouts[name, vtable] = self._layout(name, vtable)
        unpacked = object.__new__(_kind(name))
        unpacked.__dict__.update(defaults(name))
        for field, offset in self.layouts[name, vtable]:
            unpacked.__dict__[field.name] = field.read(self, place + offset, unpacked)
        return unpacked

    def _layout(self, name: str, vtable: int) -> list[tuple[_Field, int]]:
        """Return the fields that a table with this vtable has, with their offsets from its place."""
        if vtable < 0:
            raise ValueError("a table's layout lies before its beginning")
        length, half = divmod(struct.unpack_from("<H", self.buffer, vtable)[0], 2)
        if half:
            raise ValueError("a table's layout ends in the middle of a field")
        offsets = struct.unpack_from(f"<{max(0, length - 2)}H", self.buffer, vtable + 4)
        if any(offsets[_known_fields(name) :]):
            raise ValueError(f"its table {name} has a field newer than the schema known here")
        present = [field for field in _fields(name) if field.slot < len(offsets) and offsets[field.slot]]
        return [(field, offsets[field.slot]) for field in present]

    def follow(self, place: int) -> int:
        """Return the place that the offset at `place` points to."""
        return place + int(UINT32.unpack_from(self.buffer, place)[0])

    def text(self, place: int) -> bytes:
        """Return the string that the offset at `place` points to."""
        start = self.follow(place)
        length = UINT32.unpack_from(self.buffer, start)[0]
        self.room.take(length)
        return bytes(self.buffer[start + 4 : start + 4 + length])

    def array(self, place: int, dtype: np.dtype[Any], counts: bool) -> np.ndarray[Any, Any]:
        """Return the vector of numbers that the offset at `place` points to; lists take room for numbers."""
        start = self.follow(place)
        length = UINT32.unpack_from(self.buffer, start)[0]
        self.room.take(length * dtype.itemsize, numbers=length if counts else 0)
        return np.frombuffer(self.buffer, dtype, length, start + 4)

    def elements(self, place: int, read: Callable[[int], Any]) -> list[Any]:
        """Return what `read` makes of each place in the vector that the offset at `place` points to."""
        start = self.follow(place)
        found = []
        for i in range(UINT32.unpack_from(self.buffer, start)[0]):
            self.room.take(4)
            found.append(read(start + 4 + 4 * i))
        return found


@dataclass(frozen=True)
class _Field:
    """A field of a table: its place in vtables, and the function that reads it.

    `read(unpacker, place, table)` returns the value at `place`; the table has the fields before it.
    """

    name: str
    slot: int
    read: Callable[[_Unpacker, int, Any], Any]


class _Probe:
    """A stand-in for a table's bytes that records what the schema's accessors ask for."""

    Bytes, Pos = b"", 0

    def __init__(self) -> None:
        self.slot = -1
        self.number: Any = None
        self.what = ""

    def Offset(self, offset: int) -> int:
        self.slot = offset // 2 - 2
        return 4

    def Get(self, number: Any, place: int) -> int:
        self.what, self.number = self.what or "number", number
        return 0

    def GetVectorAsNumpy(self, number: Any, offset: int) -> None:
        self.what, self.number = "array", number

    def Vector(self, offset: int) -> int:
        return 0

    def Indirect(self, place: int) -> int:
        self.what = "table"
        return 0

    def String(self, place: int) -> bytes:
        self.what = "text"
        return b""

    def Union(self, table: Any, offset: int) -> None:
        self.what = "union"


def _ask(table: str, accessor: str, *arguments: int) -> tuple[_Probe, Any]:
    """Return what an accessor of a table asks for, and what it returns."""
    probe, packed = _Probe(), getattr(schema, table)()
    packed._tab = probe
    return probe, getattr(packed, accessor)(*arguments)


@cache
def _fields(table: str) -> tuple[_Field, ...]:
    """Return the fields of a table, as the schema's own accessors read them."""
    return tuple(_field(table, name) for name in defaults(table))


def _field(table: str, name: str) -> _Field:
    accessor = name[0].upper() + name[1:]
    kind = getattr(schema, table)
    if hasattr(kind, accessor + "AsNumpy"):
        probe, _ = _ask(table, accessor + "AsNumpy")
        return _Field(name, probe.slot, _array_reader(table, name, np.dtype(to_numpy_type(probe.number))))
    if hasattr(kind, accessor + "Length"):
        probe, found = _ask(table, accessor, 0)
        return _Field(name, probe.slot, _elements_reader(probe, found))
    probe, found = _ask(table, accessor)
    return _Field(name, probe.slot, _single_reader(name, probe, found))


def _array_reader(table: str, name: str, dtype: np.dtype[Any]) -> Callable[[_Unpacker, int, Any], Any]:
    counts, is_shape = name not in ARRAYS, table == "Tensor"

    def read(file: _Unpacker, place: int, _: Any) -> Any:
        values = file.array(place, dtype, counts)
        if is_shape and len(values) > MOST_AXES:
            raise ValueError(f"a tensor has {len(values)} axes, and at most {MOST_AXES} are supported")
        return values

    return read


def _elements_reader(probe: _Probe, found: Any) -> Callable[[_Unpacker, int, Any], Any]:
    if probe.what == "text":
        return lambda file, place, _: file.elements(place, file.text)
    name = type(found).__name__
    return lambda file, place, _: file.elements(place, lambda at: file.table(name, file.follow(at)))


def _single_reader(name: str, probe: _Probe, found: Any) -> Callable[[_Unpacker, int, Any], Any]:
    if probe.what == "text":
        return lambda file, place, _: file.text(place)
    if probe.what == "union":
        return _union_reader(name)
    if probe.what == "table":
        kind = type(found).__name__
        return lambda file, place, _: file.table(kind, file.follow(place))
    number = struct.Struct("<" + NUMBERS[np.dtype(to_numpy_type(probe.number)).str[1:]])
    return lambda file, place, _: number.unpack_from(file.buffer, place)[0]


def _union_reader(name: str) -> Callable[[_Unpacker, int, Any], Any]:
    """Return a function that reads the table whose kind the field before it tells; None for none known."""

    def read(file: _Unpacker, place: int, table: Any) -> Any:
        kind = enum_names(UNIONS[name]).get(getattr(table, name + "Type") or -1)
        return kind and file.table(kind, file.follow(place))

    return read


@cache
def _kind(table: str) -> Any:
    """Return the schema's class for an unpacked table."""
    return getattr(schema, table + "T")


@cache
def defaults(table: str) -> dict[str, Any]:
    """Return the fields of an unpacked table without contents; a union's type comes before it."""
    return dict(vars(_kind(table)()))


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
