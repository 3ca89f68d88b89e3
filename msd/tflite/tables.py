"""Checks on the tables of a flatbuffer before they are unpacked.

A table with a field newer than this schema is refused, because reading would silently drop it. A file whose
tables refer to each other more often than its size allows is refused, because it could unpack to any size.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from ai_edge_litert import schema_py_generated as schema
from flatbuffers.number_types import SOffsetTFlags, VOffsetTFlags

from msd.ir.opset import enum_names

Table = tuple[Any, str, int]
"""A flatbuffer table, its name in the schema, and the number of elements in its vectors."""


def check_tables(model: Any, size: int) -> None:
    """Raise ValueError if `model`, in a file of `size` bytes, has unknown fields or repeats its tables."""
    room = size // 4
    for table, name, numbers in _tables(model):
        room -= 1 + numbers
        if room < 0:
            raise ValueError("its tables refer to the same places again and again")
        if _has_more_than(_known_fields(name), table):
            raise ValueError(f"its table {name} has a field newer than the schema known here")


def _tables(model: Any) -> Iterator[Table]:
    """Yield the tables that describe a model's computation."""
    yield model._tab, "Model", 0
    for code in _each(model, "OperatorCodes"):
        yield code._tab, "OperatorCode", 0
    for buffer in _each(model, "Buffers"):
        yield buffer._tab, "Buffer", 0
    for graph in _each(model, "Subgraphs"):
        yield graph._tab, "SubGraph", graph.InputsLength() + graph.OutputsLength()
        for tensor in _each(graph, "Tensors"):
            yield tensor._tab, "Tensor", tensor.ShapeLength()
            if quantization := tensor.Quantization():
                yield quantization._tab, "QuantizationParameters", 0
        for operator in _each(graph, "Operators"):
            yield operator._tab, "Operator", operator.InputsLength() + operator.OutputsLength()
            yield from _options(operator)


def _options(operator: Any) -> Iterator[Table]:
    for union in ("BuiltinOptions", "BuiltinOptions2"):
        name = enum_names(getattr(schema, union)).get(getattr(operator, union + "Type")())
        table = getattr(operator, union)()
        if name and table is not None:
            yield table, name, 0


def _each(table: Any, vector: str) -> Iterator[Any]:
    return (getattr(table, vector)(i) for i in range(getattr(table, vector + "Length")()))


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


def _has_more_than(known: int, table: Any) -> bool:
    vtable = table.Pos - table.Get(SOffsetTFlags, table.Pos)
    fields = table.Get(VOffsetTFlags, vtable) // 2 - 2
    return any(table.Offset(4 + 2 * n) for n in range(known, fields))
