"""Operators that move elements: copies by strides, and reshapes, which cost nothing."""

from __future__ import annotations

from msd.errors import DelegateFailed
from msd.gpu.kernels.pointwise import IDENTITY, Strided, compute
from msd.gpu.lowering.memory import Memory
from msd.gpu.lowering.pointwise import broadcast_strides
from msd.gpu.value import Dispatch
from msd.gpu.views import StridedView, contiguous_strides, makes_axes, view
from msd.graph.ir import Op, Tensor


def lower_reshape(op: Op, memory: Memory) -> list[Dispatch]:
    """Return nothing: the result is the same memory."""
    memory.share(op.outputs[0], op.operands[0])
    return []


def lower_rearrangement(op: Op, memory: Memory) -> list[Dispatch]:
    """Return a copy for each result of TRANSPOSE, SLICE or SPLIT that anything reads as an array."""
    return [each for y in op.outputs for each in copy_view(view(y), y, memory, op.kind)]


def lower_strided_slice(op: Op, memory: Memory) -> list[Dispatch]:
    """Return a copy of what is taken."""
    if makes_axes(op):
        raise DelegateFailed("has an ellipsis or a new axis, which kernels do not")
    return lower_rearrangement(op, memory)


def place_in_concatenation(tensor: Tensor, memory: Memory) -> tuple[Tensor, int] | None:
    """Return the concatenation of channels that a convolution writes its result into, and where; else None.

    Nothing else reads such a result, and vectors of four stay whole.
    """
    maker, uses = tensor.producer, list(tensor.uses)
    if maker is None or maker.kind != "CONVOLUTION" or len(uses) != 1 or tensor in memory.outputs:
        return None
    if uses[0][0].kind != "CONCATENATION":
        return None
    joined = uses[0][0]
    y, widths = joined.outputs[0], [x.shape[-1] for x in joined.operands]
    plain = joined.attrs["fused_activation_function"] == "NONE" and joined.attrs["axis"] % len(y.shape) == 3
    if not plain or any(width % 4 for width in widths):
        return None
    return y, sum(widths[: joined.operands.index(tensor)])


def lower_concatenation(op: Op, memory: Memory) -> list[Dispatch]:
    """Return a copy of each input into its part of the result, where that is not written there at once."""
    y = op.outputs[0]
    if op.attrs["fused_activation_function"] != "NONE":
        raise DelegateFailed("has a fused activation, which kernels do not")
    axis, strides = op.attrs["axis"] % len(y.shape), contiguous_strides(y.shape)
    dispatches, start = list[Dispatch](), 0
    for x in op.operands:
        if place_in_concatenation(x, memory) is None:
            source = Strided(memory.value(x), contiguous_strides(x.shape))
            part = Strided(memory.value(y), strides, start * strides[axis])
            dispatches += compute(IDENTITY, [source], part, x.shape, memory.gpu, step=op.kind)
        start += x.shape[axis]
    return dispatches


def lower_padding(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatches that write zeros, then the input between them."""
    x, y = op.operands[0], op.outputs[0]
    strides = contiguous_strides(y.shape)
    before = [int(pair[0]) for pair in op.operands[1].values()]
    result = memory.value(y)
    start = sum(n * stride for n, stride in zip(before, strides, strict=True))
    source = Strided(memory.value(x), contiguous_strides(x.shape))
    return [
        *compute("0.0", [], Strided(result, strides), y.shape, memory.gpu, step=op.kind),
        *compute(IDENTITY, [source], Strided(result, strides, start), x.shape, memory.gpu, step=op.kind),
    ]


def lower_resize(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the copy that repeats each pixel a whole number of times."""
    x, y = op.operands[0], op.outputs[0]
    factors = [y.shape[i] / x.shape[i] for i in (1, 2)]
    if op.attrs["align_corners"]:
        raise DelegateFailed("aligns corners, which kernels do not")
    if any(f != int(f) for f in factors):
        raise DelegateFailed("does not enlarge by whole factors, which kernels do")
    (batch, height, width, channels), (tall, wide) = x.shape, map(int, factors)
    shape = (batch, height, tall, width, wide, channels)
    b, h, w, c = contiguous_strides(x.shape)
    source = Strided(memory.value(x), (b, h, 0, w, 0, c))
    return compute(
        IDENTITY,
        [source],
        Strided(memory.value(y), contiguous_strides(shape)),
        shape,
        memory.gpu,
        step=op.kind,
    )


def lower_depth_to_space(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the copy that makes of each pixel's channels a block of pixels."""
    return _between_depth_and_space(op, memory, op.operands[0], op.outputs[0])


def lower_space_to_depth(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the copy that makes of each block of pixels the channels of one."""
    return _between_depth_and_space(op, memory, op.outputs[0], op.operands[0])


def _between_depth_and_space(op: Op, memory: Memory, deep: Tensor, wide: Tensor) -> list[Dispatch]:
    """Return the copy between channels and blocks, whose axes are batch, row, row in block, and so on."""
    block, (batch, height, width, _) = op.attrs["block_size"], deep.shape
    channels = wide.shape[3]
    b, h, w, _ = contiguous_strides(deep.shape)
    shape = (batch, height, block, width, block, channels)
    seen = {
        deep: (b, h, block * channels, w, channels, 1),
        wide: contiguous_strides(shape),
    }
    x, y = op.operands[0], op.outputs[0]
    source, result = Strided(memory.value(x), seen[x]), Strided(memory.value(y), seen[y])
    return compute(IDENTITY, [source], result, shape, memory.gpu, step=op.kind)


def lower_broadcast(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the copy that repeats the input along axes of size one."""
    x, y = op.operands[0], op.outputs[0]
    source = Strided(memory.value(x), broadcast_strides(x, y.shape))
    result = Strided(memory.value(y), contiguous_strides(y.shape))
    return compute(IDENTITY, [source], result, y.shape, memory.gpu, step=op.kind)


def copy_view(seen: StridedView, y: Tensor, memory: Memory, step: str) -> list[Dispatch]:
    """Return the dispatch that makes a view an array of its own, `y`."""
    source = Strided(memory.value(seen.base), seen.strides, seen.offset)
    result = Strided(memory.value(y), contiguous_strides(y.shape))
    return compute(IDENTITY, [source], result, y.shape, memory.gpu, step=step)


LOWER = {
    "RESHAPE": lower_reshape,
    "EXPAND_DIMS": lower_reshape,
    "SQUEEZE": lower_reshape,
    "TRANSPOSE": lower_rearrangement,
    "SLICE": lower_rearrangement,
    "SPLIT": lower_rearrangement,
    "STRIDED_SLICE": lower_strided_slice,
    "CONCATENATION": lower_concatenation,
    "PAD": lower_padding,
    "RESIZE_NEAREST_NEIGHBOR": lower_resize,
    "BROADCAST_TO": lower_broadcast,
    "DEPTH_TO_SPACE": lower_depth_to_space,
    "SPACE_TO_DEPTH": lower_space_to_depth,
}
