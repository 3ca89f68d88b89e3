"""How much memory a graph takes on a GPU: an estimate, since no delegate says what it allocated.

It counts what is kept all the time (constants, `msd.gpu_weights`) and what is computed, placed by
`msd.memory_plan`. It leaves out what drivers and compiled kernels take, and the padding of rows of textures.
It takes no account of operators that a delegate runs as one, whose results between them then need no memory;
nor of delegates that share textures of the same size only, which need more than one piece of memory does.
"""

from __future__ import annotations

from dataclasses import dataclass

from msd.device import ConvSize, Device
from msd.gpu_storage import Precision, element_bytes, tensor_bytes
from msd.gpu_weights import Kept, constant, convolution, kept_weights
from msd.ir import Graph, Tensor
from msd.memory_plan import Life, needed, offsets


@dataclass(frozen=True)
class Placed:
    """A computed tensor at `offset` bytes, needed while operators `first` to `last` run."""

    tensor: str
    bytes: int
    offset: int
    first: int
    last: int


@dataclass(frozen=True)
class GpuMemory:
    """What lies on the GPU. `timeline`: bytes of computed tensors needed while each operator runs."""

    weights: tuple[Kept, ...]
    activations: tuple[Placed, ...]
    timeline: tuple[int, ...]

    @property
    def weights_bytes(self) -> int:
        """What constants take."""
        return sum(kept.bytes for kept in self.weights)

    @property
    def activations_bytes(self) -> int:
        """What computed tensors take in the plan."""
        return max((placed.offset + placed.bytes for placed in self.activations), default=0)

    @property
    def least_activations_bytes(self) -> int:
        """What computed tensors take in any plan."""
        return max(self.timeline, default=0)

    @property
    def peak(self) -> int | None:
        """The operator that needs the most; the first of several, None in a graph without any."""
        return self.timeline.index(max(self.timeline)) if self.timeline else None

    @property
    def bytes(self) -> int:
        """All together."""
        return self.weights_bytes + self.activations_bytes


def estimate(graph: Graph, device: Device, precision: Precision = "fp16") -> GpuMemory:
    """Return what `graph` takes on a device under its delegate; under none, as TensorFlow Lite's keeps it."""
    uses = [*_computed(graph, precision), *_transformed(graph, device, precision)]
    lives = [life for _, life in uses]
    places = offsets(lives)
    return GpuMemory(
        tuple(kept_weights(graph, device, precision)),
        tuple(
            Placed(name, life.size, place, life.first, life.last)
            for (name, life), place in zip(uses, places, strict=True)
        ),
        tuple(needed(lives, len(graph.ops))),
    )


def _computed(graph: Graph, precision: Precision) -> list[tuple[str, Life]]:
    """Every tensor but constants, dequantised or not; inputs live from the start, outputs to the end."""
    last = len(graph.ops) - 1
    first_use = {t: 0 for t in graph.inputs if t.data is None}
    last_use = dict(first_use)
    for i, op in enumerate(graph.ops):
        for tensor in (*op.operands, *op.outputs):
            if constant(tensor) is None:
                first_use.setdefault(tensor, i)
                last_use[tensor] = i
    last_use |= {t: last for t in graph.outputs if t in last_use}
    if last < 0:
        return []
    return [(t.name, Life(_size(t, precision), first, last_use[t])) for t, first in first_use.items()]


def _size(tensor: Tensor, precision: Precision) -> int:
    return tensor_bytes(tensor.shape, element_bytes(tensor.dtype, precision))


def _transformed(graph: Graph, device: Device, precision: Precision) -> list[tuple[str, Life]]:
    """The input and the result of every Winograd convolution, 36 values a tile, while it runs."""
    element = element_bytes("FLOAT32", precision)
    found = []
    for i, op in enumerate(graph.ops):
        size = convolution(op)
        if size is not None and device.uses_winograd(size):
            for name, shape in _tiled(size):
                made = Life(tensor_bytes(shape, element), i, i)
                found.append((f"{op.outputs[0].name}/{name}", made))
    return found


def _tiled(size: ConvSize) -> list[tuple[str, tuple[int, int, int, int]]]:
    return [
        ("winograd input", (size.batch, 36, size.tiles, size.inputs)),
        ("winograd result", (size.batch, 36, size.tiles, size.outputs)),
    ]
