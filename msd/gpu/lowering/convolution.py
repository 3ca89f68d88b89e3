"""Convolutions: direct or by Winograd's transforms, with everything that was fused into them."""

from __future__ import annotations

from functools import cache, partial
from math import prod
from typing import Any

import numpy as np

from msd.errors import DelegateFailed
from msd.gpu.kernels.convolution import convolve
from msd.gpu.kernels.filters import interleave, pack_filter, vector_value
from msd.gpu.kernels.measured_output import measured_output
from msd.gpu.kernels.winograd import (
    choose_winograd,
    filter_of_run,
    tile_count,
    transformed_filter,
    winograd,
    winograd_bytes,
)
from msd.gpu.kinds import BIAS, FILTER, GATE_BIAS, GATE_FILTER, RESIDUAL, SLOPES, VECTOR
from msd.gpu.lowering.memory import Memory
from msd.gpu.lowering.movement import place_in_concatenation
from msd.gpu.lowering.norms import lower_statistics
from msd.gpu.lowering.weights import FileWeights, require_known, stored_weights
from msd.gpu.operations import Conv2D, Epilogue, Filter, Normalised
from msd.gpu.value import Dispatch
from msd.graph.ir import Op, Tensor
from msd.graph.ir.real_numbers import real_numbers
from msd.graph.ir.weights import Array

KEEPS_TRANSFORM = 1024
"""The fewest tiles of an image for which every GPU keeps Winograd's transform of a filter, which is eight
times as large as its int8 weights. For fewer, where filters are large, one with fast memory transforms it in
each run."""

MOST_TRANSFORM = 64 << 20
"""The most bytes of a transformed filter that lives for one run: a larger one would be the arena's largest
value, and reading it takes longer than the products save."""

SLOW_MEMORY = 30.0
"""The balance from which a GPU keeps all transforms: writing them again would cost more than their space."""


def lower_convolution(op: Op, memory: Memory) -> list[Dispatch]:
    """Return the dispatches of a convolution; raises DelegateFailed for weights that kernels cannot read."""
    weights, bias = _weights(_present(op, FILTER)), _bias(op.inputs[BIAS])
    gate = op.inputs[GATE_FILTER]
    if gate is not None:
        weights = _paired(weights, _weights(gate))
        bias = _paired_bias(bias, _bias(op.inputs[GATE_BIAS]), op.outputs[0].shape[3])
    convolution = _described(op, weights, bias, memory)
    tile = choose_winograd(convolution, memory.gpu) if memory.switches.winograd else None
    if tile is not None and not _keeps(convolution, tile, memory):
        tile = tile if winograd_bytes(convolution, tile, memory.gpu)[1] <= MOST_TRANSFORM else None
    if tile is None:
        return convolve(convolution, memory.gpu, _step(convolution))
    before, norm = _norm(op, memory)
    return before + _by_winograd(convolution, weights, tile, memory, norm)


def refuse_unfused(op: Op, memory: Memory) -> list[Dispatch]:
    """Raise DelegateFailed for a layer that no rule of msd.gpu.fusion makes a convolution of."""
    filters = op.inputs[FILTER]
    if filters is None or filters.data is None:
        raise DelegateFailed("has a filter that is computed, which kernels do not")
    if len(filters.shape) == 4 and filters.shape[3] != op.operands[0].shape[3]:
        raise DelegateFailed("has groups of channels, which kernels do not")
    raise DelegateFailed("has an activation or a layout of weights that kernels do not")


def _norm(op: Op, memory: Memory) -> tuple[list[Dispatch], Normalised | None]:
    """Return a group norm before the operator that nothing else reads: its statistics, and how to read it.

    The dispatches that store its result are then not needed (msd.gpu.compile).
    """
    maker = op.operands[0].producer
    if maker is None or maker.kind != "GROUP_NORM" or len(op.operands[0].uses) > 1:
        return [], None
    return lower_statistics(maker, memory)


def _described(op: Op, weights: FileWeights, bias: Array | None, memory: Memory) -> Conv2D:
    x, y, gated = op.operands[0], op.outputs[0], op.inputs[GATE_FILTER] is not None
    batch, height, width, channels = x.shape
    vector, slopes, residual = op.inputs[VECTOR], _bias(op.inputs[SLOPES]), op.inputs[RESIDUAL]
    joined = place_in_concatenation(y, memory)
    result, at = joined or (y, 0)
    return Conv2D(
        x=memory.value(x),
        filter=_packed(weights, memory, _present(op, FILTER).name),
        y=memory.value(result),
        y_at=at,
        y_row=result.shape[3] if joined else None,
        batch=batch,
        height=height,
        width=width,
        channels=channels,
        out_height=y.shape[1],
        out_width=y.shape[2],
        kernel=(weights.shape[1], weights.shape[2]),
        stride=op.attrs["stride"],
        pad=op.attrs["pad"],
        dilation=op.attrs["dilation"],
        upsample=op.attrs["upsample"],
        epilogue=Epilogue(
            bias=None if bias is None else vector_value(bias, f"{y.name}.bias"),
            activation="NONE" if gated or slopes is not None else op.attrs["activation"],
            slopes=None if slopes is None else vector_value(slopes, f"{y.name}.slopes"),
            **_vector(vector, memory),
            residual=None if residual is None else memory.value(residual),
            gate=op.attrs["activation"] if gated else None,
        ),
    )


def _by_winograd(
    convolution: Conv2D, weights: FileWeights, tile: int, memory: Memory, norm: Normalised | None
) -> list[Dispatch]:
    gpu, step = memory.gpu, _step(convolution)
    if _keeps(convolution, tile, memory):
        name = f"{convolution.y.name}.winograd"
        sizes = (convolution.outputs, convolution.channels, tile)
        transformed = transformed_filter(weights.load, *sizes, gpu, name, weights.stored)
    else:
        transformed = filter_of_run(convolution, tile, gpu)
    dispatches = winograd(convolution, transformed, tile, gpu, step, norm=norm)
    if memory.switches.measured_outputs:
        measure = partial(measured_output, convolution, dispatches[-1], tile, gpu)
        memory.measurable[convolution.y] = cache(measure)  # for all norms that read it
    return dispatches


def _keeps(convolution: Conv2D, tile: int, memory: Memory) -> bool:
    """Return whether the transform of a filter is a constant."""
    worthwhile = memory.gpu.balance >= SLOW_MEMORY or tile_count(convolution, tile) >= KEEPS_TRANSFORM
    return worthwhile and memory.switches.kept_transforms


def _step(convolution: Conv2D) -> str:
    height, width = convolution.kernel
    return f"CONV_2D {height}x{width}"


def _present(op: Op, place: int) -> Tensor:
    tensor = op.inputs[place]
    assert tensor is not None, "a convolution has a filter"
    return tensor


def _weights(tensor: Tensor) -> FileWeights:
    """Return the weights of a filter as OHWI."""
    outputs, *inputs = tensor.shape
    return stored_weights(tensor, tensor.shape if len(inputs) == 3 else (outputs, 1, 1, *inputs))


def _vector(tensor: Tensor | None, memory: Memory) -> dict[str, Any]:
    """Return the vector of an epilogue, which may be part of a larger tensor."""
    if tensor is None:
        return {}
    seen, value = memory.view(tensor)
    if seen.strides[-1] != 1:
        return {"vector": memory.value(tensor)}
    return {"vector": value, "vector_at": seen.offset, "vector_row": seen.strides[0]}


def _bias(tensor: Tensor | None) -> Array | None:
    if tensor is None:
        return None
    require_known(tensor)
    return real_numbers(tensor).reshape(-1)


def _paired(values: FileWeights, gates: FileWeights) -> FileWeights:
    """Return both filters as one, in the blocks that Epilogue.gate describes."""
    if values.stored != gates.stored:
        values, gates = values.as_floats(), gates.as_floats()
    scale = None
    if values.scale is not None and gates.scale is not None:
        scale = interleave(values.scale, gates.scale)
    shape = (2 * values.shape[0], *values.shape[1:])
    return FileWeights(lambda: interleave(values.load(), gates.load()), values.stored, shape, scale)


def _paired_bias(values: Array | None, gates: Array | None, outputs: int) -> Array | None:
    if values is None and gates is None:
        return None
    zeros = np.zeros(outputs, np.float32)
    return interleave(zeros if values is None else values, zeros if gates is None else gates)


def _packed(weights: FileWeights, memory: Memory, name: str) -> Filter:
    rows, columns = prod(weights.shape[1:]), weights.shape[0]
    return pack_filter(weights.load, weights.stored, rows, columns, weights.scale, memory.gpu, name)


LOWER = {
    "CONVOLUTION": lower_convolution,
    **dict.fromkeys(("CONV_2D", "FULLY_CONNECTED"), refuse_unfused),
}
