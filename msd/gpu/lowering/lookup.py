"""Token embeddings: rows of a table, by number."""

from __future__ import annotations

from math import prod

from msd.errors import DelegateFailed
from msd.gpu.kernels.embedding import Table, gather, look_up
from msd.gpu.kernels.filters import pack_filter, vector_value
from msd.gpu.lowering.memory import Memory
from msd.gpu.lowering.weights import stored_weights
from msd.gpu.value import Dispatch
from msd.graph.ir import Op, Tensor


def lower_lookup(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatch of an EMBEDDING_LOOKUP in a constant table, whose integers have a scale per row."""
    ids, table = op.operands
    return _look_up(ids, table, op.outputs[0], memory)


def lower_gather(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatch of a GATHER of rows."""
    table, ids = op.operands
    if op.attrs["batch_dims"]:
        raise DelegateFailed("gathers from each batch by indices of its own, which kernels do not")
    if op.attrs["axis"] % len(table.shape):
        raise DelegateFailed("gathers along another axis than the first, which kernels do not")
    return _look_up(ids, table, op.outputs[0], memory)


def _look_up(ids: Tensor, table: Tensor, y: Tensor, memory: Memory) -> list[Dispatch]:
    rows, columns = table.shape[0], prod(table.shape[1:])
    numbers, result = memory.value(ids), memory.value(y)
    if table.data is None:
        return gather(numbers, memory.value(table), rows, columns, result, memory.gpu, "EMBEDDING_LOOKUP")
    return look_up(numbers, _table(table, memory), result, memory.gpu, "EMBEDDING_LOOKUP")


def _table(tensor: Tensor, memory: Memory) -> Table:
    """Return a constant table: a filter whose rows are the table's."""
    weights = stored_weights(tensor, (tensor.shape[0], prod(tensor.shape[1:])))
    rows, columns = weights.shape
    packed = pack_filter(
        lambda: weights.load().T, weights.stored, rows, columns, None, memory.gpu, tensor.name
    )
    scale = None if weights.scale is None else vector_value(weights.scale, f"{tensor.name}.scale")
    return Table(values=packed.values, stored=weights.stored, rows=rows, columns=columns, scale=scale)


LOWER = {"EMBEDDING_LOOKUP": lower_lookup, "GATHER": lower_gather}
