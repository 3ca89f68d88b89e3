"""Group norm, layer norm and softmax."""

from __future__ import annotations

from math import prod

from msd.gpu.kernels.normalization import (
    group_statistics,
    is_small,
    joined_statistics,
    normalize_groups,
    normalize_layers,
)
from msd.gpu.kernels.softmax import softmax
from msd.gpu.lowering.memory import Memory
from msd.gpu.operations import GroupNorm, LayerNorm, Normalised, Softmax
from msd.gpu.value import Dispatch, Value
from msd.graph.ir import Op, Tensor


def lower_group_norm(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatches of a group norm with its activation."""
    return normalize_groups(_group_norm(op, memory), memory.gpu, op.kind)


def lower_statistics(op: Op, memory: Memory) -> tuple[list[Dispatch], Normalised]:
    """Return the dispatches of a group norm's statistics, and how to read its result.

    Where the dispatch that writes the image can measure it, that does.
    """
    norm = _group_norm(op, memory)
    measure = None if is_small(norm) else memory.measurable.get(norm.x)
    measured = measure() if measure else None
    if measured is None:
        dispatches, factors = group_statistics(norm, memory.gpu, op.kind)
    else:
        memory.replaced[measured.plain] = measured.measuring
        dispatches, factors = joined_statistics(norm, measured, op.kind)
    return dispatches, Normalised(norm.x, factors, norm.activation)


def _group_norm(op: Op, memory: Memory) -> GroupNorm:
    _, scale, shift = op.inputs
    batch, *pixels, channels = op.outputs[0].shape
    return GroupNorm(
        x=memory.value(op.operands[0]),
        y=memory.value(op.outputs[0]),
        batch=batch,
        pixels=prod(pixels),
        channels=channels,
        groups=op.attrs["groups"],
        epsilon=op.attrs["epsilon"],
        scale=_optional(scale, memory),
        shift=_optional(shift, memory),
        activation=op.attrs["activation"],
    )


def lower_layer_norm(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatch of a layer norm."""
    _, scale, shift = op.inputs
    *rows, channels = op.outputs[0].shape
    norm = LayerNorm(
        x=memory.value(op.operands[0]),
        y=memory.value(op.outputs[0]),
        rows=prod(rows),
        channels=channels,
        epsilon=op.attrs["epsilon"],
        scale=_optional(scale, memory),
        shift=_optional(shift, memory),
    )
    return normalize_layers(norm, memory.gpu, op.kind)


def lower_softmax(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatch of a softmax over the last axis."""
    x, y = op.operands[0], op.outputs[0]
    *rows, columns = y.shape
    soft = Softmax(
        x=memory.value(x), y=memory.value(y), rows=prod(rows), columns=columns, beta=op.attrs["beta"]
    )
    return softmax(soft, memory.gpu, op.kind)


def _optional(tensor: Tensor | None, memory: Memory) -> Value | None:
    return memory.constant(tensor) if tensor is not None else None


LOWER = {"GROUP_NORM": lower_group_norm, "LAYER_NORM": lower_layer_norm, "SOFTMAX": lower_softmax}
