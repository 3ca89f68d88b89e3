"""Attention, and batched products elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from msd.errors import DelegateFailed
from msd.gpu.kernels.attention import attend, attend_partially, attend_plainly, choose_flash
from msd.gpu.kernels.product import multiply
from msd.gpu.lowering.memory import Memory
from msd.gpu.operations import Attention, Heads, Matrices, Product
from msd.gpu.value import Dispatch, Value
from msd.graph.ir import Op, Tensor


def lower_attention(op: Op, memory: Memory) -> list[Dispatch]:
    """Return attention's dispatches: FlashAttention, a partially fused softmax, or three operations."""
    attrs = op.attrs
    mask = op.inputs[3]
    values = [*map(memory.activation, op.operands[:3]), memory.value(op.outputs[0])]
    q, k, v, y = (_heads(value, name, attrs) for name, value in zip("qkvy", values, strict=True))
    sizes = {name: attrs[name] for name in ("batch", "heads", "queries", "keys", "size", "value_size")}
    known = None if mask is None else memory.constant(mask)
    attention = Attention(q=q, k=k, v=v, y=y, **sizes, scale=attrs["scale"], mask=known)
    if memory.switches.flash and choose_flash(attention, memory.gpu):
        return attend(attention, memory.gpu, op.kind)
    if memory.switches.softmax:
        return attend_partially(attention, memory.gpu, op.kind)
    return attend_plainly(attention, memory.gpu, op.kind)


def _heads(value: Value, name: str, attrs: Mapping[str, Any]) -> Heads:
    """Return where the heads of q, k, v or y lie."""
    return Heads(
        value=value,
        offset=attrs[f"{name}_offset"],
        batch=attrs[f"{name}_batch"],
        head=attrs[f"{name}_head"],
        row=attrs[f"{name}_row"],
    )


def lower_batch_matmul(op: Op, memory: Memory) -> list[Dispatch]:
    """Return a product for each batch whose matrices do not follow the last one's at a fixed distance."""
    (a, b), y = op.operands, op.outputs[0]
    if a.shape[:-2] != b.shape[:-2]:
        raise DelegateFailed("broadcasts, which kernels do not")
    left, right = _matrices(a, op.attrs["adj_x"], memory), _matrices(b, op.attrs["adj_y"], memory)
    rows, columns = y.shape[-2:]
    product = Product(
        a=left,
        b=right,
        y=_matrices(y, False, memory),
        batch=prod(y.shape[:-2]),
        rows=rows,
        columns=columns,
        depth=a.shape[-2] if op.attrs["adj_x"] else a.shape[-1],
    )
    return multiply(product, memory.gpu, op.kind)


def _matrices(tensor: Tensor, adjoint: bool, memory: Memory) -> Matrices:
    """Return the matrices of a tensor that is an array."""
    rows, columns = tensor.shape[-2:]
    row, column = (1, columns) if adjoint else (columns, 1)
    value = memory.activation(tensor)
    return Matrices(value=value, offset=0, batch=rows * columns, row=row, column=column)


LOWER = {"ATTENTION": lower_attention, "BATCH_MATMUL": lower_batch_matmul}
