"""Attention, and batched products elsewhere."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from msd.errors import DelegateFailed
from msd.ir import Op, Tensor
from msd.webgpu.kernels.attention import attend, attend_partially, attend_plainly, choose_flash
from msd.webgpu.kernels.product import multiply
from msd.webgpu.lowering.memory import Memory
from msd.webgpu.operations import Attention, Heads, Matrices, Product
from msd.webgpu.value import Dispatch


def lower_attention(op: Op, memory: Memory) -> list[Dispatch]:
    """Return attention's dispatches: FlashAttention, a partially fused softmax, or three operations."""
    attrs = op.attrs
    mask = op.inputs[3]
    values = [memory.value(t) for t in (*op.operands[:3], op.outputs[0])]
    heads = [
        Heads(value, *(attrs[f"{name}_{part}"] for part in ("offset", "batch", "head", "row")))
        for name, value in zip("qkvy", values, strict=True)
    ]
    attention = Attention(
        *heads,
        **{
            name: attrs[name] for name in ("batch", "heads", "queries", "keys", "size", "value_size", "scale")
        },
        mask=None if mask is None else memory.constant(mask),
    )
    if memory.switches.flash and choose_flash(attention, memory.gpu):
        return attend(attention, memory.gpu, op.kind)
    if memory.switches.softmax:
        return attend_partially(attention, memory.gpu, op.kind)
    return attend_plainly(attention, memory.gpu, op.kind)


def lower_batch_matmul(op: Op, memory: Memory) -> list[Dispatch]:
    """Return a product for each batch whose matrices do not follow the last one's at a fixed distance."""
    (a, b), y = op.operands, op.outputs[0]
    if a.data is not None or b.data is not None or a.shape[:-2] != b.shape[:-2]:
        raise DelegateFailed("multiplies a constant or broadcasts, which kernels do not")
    left, right = _matrices(a, op.attrs["adj_x"], memory), _matrices(b, op.attrs["adj_y"], memory)
    rows, columns = y.shape[-2:]
    product = Product(
        a=left,
        b=right,
        y=Matrices(memory.value(y), 0, rows * columns, columns, 1),
        batch=prod(y.shape[:-2]),
        rows=rows,
        columns=columns,
        depth=a.shape[-2] if op.attrs["adj_x"] else a.shape[-1],
    )
    return multiply(product, memory.gpu, op.kind)


def _matrices(tensor: Tensor, adjoint: bool, memory: Memory) -> Matrices:
    """Return the matrices of a tensor that is an array."""
    rows, columns = tensor.shape[-2:]
    plain = Matrices(memory.value(tensor), 0, rows * columns, columns, 1)
    return replace(plain, row=plain.column, column=plain.row) if adjoint else plain


LOWER = {"ATTENTION": lower_attention, "BATCH_MATMUL": lower_batch_matmul}
