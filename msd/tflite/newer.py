"""Fields that a file has and the schema known here has not.

Reading would lose them without a word, and what they mean with them; so such a file is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from ai_edge_litert import schema_py_generated as schema
from flatbuffers.number_types import SOffsetTFlags, VOffsetTFlags

from msd.opset import enum_names


def refuse_newer(model: Any) -> None:
    """Raise ValueError if a table of the schema's `Model` holds a field that is not known here."""
    for table, name in _tables(model):
        if _has_more_than(_known_fields(name), table):
            raise ValueError(f"its table {name} has a field newer than the schema known here")


def _tables(model: Any) -> Iterator[tuple[Any, str]]:
    """Yield the flatbuffer tables that carry what a model computes, with their names in the schema."""
    yield model._tab, "Model"
    for code in _each(model, "OperatorCodes"):
        yield code._tab, "OperatorCode"
    for buffer in _each(model, "Buffers"):
        yield buffer._tab, "Buffer"
    for graph in _each(model, "Subgraphs"):
        yield graph._tab, "SubGraph"
        for tensor in _each(graph, "Tensors"):
            yield tensor._tab, "Tensor"
            if quantization := tensor.Quantization():
                yield quantization._tab, "QuantizationParameters"
        for operator in _each(graph, "Operators"):
            yield operator._tab, "Operator"
            yield from _options(operator)


def _options(operator: Any) -> Iterator[tuple[Any, str]]:
    for union in ("BuiltinOptions", "BuiltinOptions2"):
        name = enum_names(getattr(schema, union)).get(getattr(operator, union + "Type")())
        table = getattr(operator, union)()
        if name and table is not None:
            yield table, name


def _each(table: Any, vector: str) -> Iterator[Any]:
    return (getattr(table, vector)(i) for i in range(getattr(table, vector + "Length")()))


class _Slots:
    """Stands in for a flatbuffer builder, to be told how many fields a table has."""

    def StartObject(self, slots: int) -> None:
        self.count = slots


@cache
def _known_fields(table: str) -> int:
    """Return how many fields a table of the schema has, those without a name any more among them."""
    slots = _Slots()
    getattr(schema, table + "Start")(slots)
    return slots.count


def _has_more_than(known: int, table: Any) -> bool:
    vtable = table.Pos - table.Get(SOffsetTFlags, table.Pos)
    fields = table.Get(VOffsetTFlags, vtable) // 2 - 2
    return any(table.Offset(4 + 2 * n) for n in range(known, fields))
