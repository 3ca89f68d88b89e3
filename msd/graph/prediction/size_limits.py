"""The tensors and weights of a graph that are too large for a device, and how its convolutions run there.

No graph compiler checks these sizes, and TensorFlow Lite's GPU delegate itself detects some of them only by
failing. Formulas: `msd.graph.prediction.storage`, `msd.graph.prediction.stored_constants`,
`msd.graph.prediction.device`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from msd.graph.ir import Graph, Op, Tensor
from msd.graph.prediction.device import ConvSize, Device, slices, within
from msd.graph.prediction.fit import (
    delegates_of,
    fits,
    input_split,
    output_split,
    uses_winograd,
    weights_texture,
)
from msd.graph.prediction.storage import Precision, bhwc, element_bytes, extent, store
from msd.graph.prediction.stored_constants import constant, convolution, kept_weights

Severity = Literal["fails", "degrades"]
"""The effect: the delegate refuses the graph or crashes, or the graph runs with slower storage."""

SMALLER = "smaller images, batch 1, or fewer heads of an attention at a time"


@dataclass(frozen=True)
class SizeProblem:
    """A size beyond a limit, in `tensors` of operator number `op`, of `kind`; `sentence` explains it.

    `code` is weights-texture, weights-allocation, tensor-allocation, matmul-texture or tensor-storage. `fix`
    is the rewrite or the change that solves it, "" where none is needed.
    """

    op: int
    kind: str
    tensors: tuple[str, ...]
    code: str
    severity: Severity
    sentence: str
    fix: str


@dataclass(frozen=True)
class Convolution:
    """The execution of a CONV_2D; `texture` is the width and height of the texture that its weights need."""

    op: int
    size: ConvSize
    winograd: bool
    texture: tuple[int, int]


def convolutions(graph: Graph, device: Device) -> list[Convolution]:
    """Return every CONV_2D with constant weights, and whether it runs as Winograd."""
    return [
        Convolution(i, size, uses_winograd(device, size), weights_texture(device, size))
        for i, op in enumerate(graph.ops)
        if (size := convolution(op)) is not None
    ]


def size_problems(graph: Graph, device: Device, precision: Precision = "fp16") -> list[SizeProblem]:
    """Return the sizes beyond the limits of a device and its delegate, in the order of operators.

    An unknown limit (`Device.unknown`) is never exceeded. Without a delegate, the limits of all count.
    """
    problems = [
        *_weights(graph, device),
        *_allocations(graph, device, precision),
        *_tensors(graph, device, precision),
        *_matmuls(graph, device),
    ]
    return sorted(problems, key=lambda problem: problem.op)


def _weights(graph: Graph, device: Device) -> Iterator[SizeProblem]:
    for conv in convolutions(graph, device):
        if not fits(device, conv.size):
            op = graph.ops[conv.op]
            names = (op.operands[1].name,)
            why = _why(conv, device)
            yield SizeProblem(
                op=conv.op,
                kind=op.kind,
                tensors=names,
                code="weights-texture",
                severity="fails",
                sentence=why,
                fix=_splits(conv, device),
            )


def _why(conv: Convolution, device: Device) -> str:
    size, (width, height) = conv.size, conv.texture
    kh, kw = size.kernel
    deep, wide = slices(size.inputs), slices(size.outputs)
    layer = f"the {kh}x{kw} convolution of {size.inputs} to {size.outputs} channels"
    rows = f"{kh * kw} rows for each of {deep} slices of four input channels"
    if conv.winograd:
        tiles = min(delegate.winograd_tiles(size) for delegate in delegates_of(device))
        winograd = f"as it runs as Winograd ({tiles} tiles, {deep} and {wide} slices of channels)"
        rows = f"36 rows for each of {deep} slices of four input channels, {winograd}"
    most = f"{device.image2d_width} x {device.image2d_height}"
    return f"{layer} needs a weights texture of {width} x {height}: {rows}; {device.name} has at most {most}"


def _splits(conv: Convolution, device: Device) -> str:
    by_input, by_output = input_split(device, conv.size), output_split(device, conv.size)
    splits = [f"{by_input} slices of the input channels"] if by_input else []
    splits += [f"{by_output} of the output channels"] if by_output else []
    return f"serialize_conv: {', or '.join(splits)}" if splits else "fewer channels: no equal slices fit"


def _allocations(graph: Graph, device: Device, precision: Precision) -> Iterator[SizeProblem]:
    for weights in kept_weights(graph, device, precision):
        if not within(weights.piece, device.allocation_bytes):
            kind = graph.ops[weights.op].kind
            why = f"the weights {weights.tensor} take {_beyond(weights.piece, weights.form, device)}"
            yield SizeProblem(
                op=weights.op,
                kind=kind,
                tensors=(weights.tensor,),
                code="weights-allocation",
                severity="fails",
                sentence=why,
                fix="smaller weights",
            )


def _beyond(size: int, form: str, device: Device) -> str:
    most = _mib(device.allocation_bytes or 0)
    return f"{_mib(size)} in one piece as {form}; {device.name} allocates at most {most}"


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"


def _tensors(graph: Graph, device: Device, precision: Precision) -> Iterator[SizeProblem]:
    for i, op, tensor in _computed(graph):
        element = element_bytes(tensor.dtype, precision)
        stored = store(tensor.shape, element, device)
        names, shape = (tensor.name,), "x".join(map(str, tensor.shape))
        if not stored.fits:
            form = f"{shape} of {element} bytes each"
            why = f"{tensor.name} takes {_beyond(stored.bytes, form, device)}"
            yield SizeProblem(
                op=i,
                kind=op.kind,
                tensors=names,
                code="tensor-allocation",
                severity="fails",
                sentence=why,
                fix=SMALLER,
            )
        elif stored.storage != device.activations_storage:
            size = " x ".join(map(str, extent(tensor.shape, device.activations_storage)[:2]))
            usual, actual = (s.replace("_", " ") for s in (device.activations_storage, stored.storage))
            why = f"{tensor.name} ({shape}) would be a {usual} of {size}, more than {device.name} has"
            why += f": it is stored in a slower {actual}"
            yield SizeProblem(
                op=i,
                kind=op.kind,
                tensors=names,
                code="tensor-storage",
                severity="degrades",
                sentence=why,
                fix="",
            )


def _computed(graph: Graph) -> Iterator[tuple[int, Op, Tensor]]:
    """Yield every computed tensor with the first operator that reads or produces it."""
    seen: set[Tensor] = set()
    for i, op in enumerate(graph.ops):
        for tensor in (*op.operands, *op.outputs):
            if constant(tensor) is None and tensor not in seen:
                seen.add(tensor)
                yield i, op, tensor


def _matmuls(graph: Graph, device: Device) -> Iterator[SizeProblem]:
    """Yield the problems of BATCH_MATMUL, whose batches some delegates stack in a texture."""
    stacks = any(delegate.stacks_batches for delegate in delegates_of(device))
    if not stacks or device.activations_storage != "texture_2d":
        return
    for i, op in enumerate(graph.ops):
        if op.kind != "BATCH_MATMUL" or all(bhwc(t.shape)[0] == 1 for t in op.outputs):
            continue
        for tensor in (*op.operands, *op.outputs):
            b, h, w, c = bhwc(tensor.shape)
            width, height, _ = extent((1, b * h, w, c), "texture_2d")
            if within(width, device.image2d_width) and within(height, device.image2d_height):
                continue
            most = f"{device.image2d_width} x {device.image2d_height}"
            why = f"{tensor.name}, its {b} batches stacked, needs a texture of {width} x {height}"
            why += f"; {device.name} has at most {most}"
            yield SizeProblem(
                op=i,
                kind=op.kind,
                tensors=(tensor.name,),
                code="matmul-texture",
                severity="fails",
                sentence=why,
                fix=SMALLER,
            )
