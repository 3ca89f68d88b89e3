"""An estimate of the GPU memory that a graph needs, since no delegate reports its allocations.

It counts constants (`msd.graph.prediction.stored_constants`) and computed tensors, placed by
`msd.graph.prediction.memory_plan`. It ignores drivers, compiled kernels and the row padding of textures. It
also ignores that a delegate may fuse operators, whose inner results then need no memory, and that some
delegates share only textures of equal size, which takes more memory than one shared block.
"""

from __future__ import annotations

from dataclasses import dataclass

from msd.graph.ir import Graph, Op, Tensor
from msd.graph.prediction.device import Device, Shape
from msd.graph.prediction.fit import uses_winograd
from msd.graph.prediction.memory_plan import Lifetime, live_bytes, offsets
from msd.graph.prediction.storage import Precision, element_bytes, tensor_bytes
from msd.graph.prediction.stored_constants import StoredConstant, constant, convolution, kept_weights


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
    """The contents of GPU memory. `timeline`: bytes of live computed tensors while each operator runs."""

    weights: tuple[StoredConstant, ...]
    activations: tuple[Placed, ...]
    timeline: tuple[int, ...]

    @property
    def weights_bytes(self) -> int:
        """Bytes of constants."""
        return sum(kept.bytes for kept in self.weights)

    @property
    def activations_bytes(self) -> int:
        """Bytes of computed tensors in this plan."""
        return max((placed.offset + placed.bytes for placed in self.activations), default=0)

    @property
    def peak(self) -> int | None:
        """The first operator with the most live bytes; None in a graph without operators."""
        return self.timeline.index(max(self.timeline)) if self.timeline else None

    @property
    def bytes(self) -> int:
        """Bytes in all."""
        return self.weights_bytes + self.activations_bytes


def estimate(graph: Graph, device: Device, precision: Precision = "fp16") -> GpuMemory:
    """Return the memory of `graph` on a device with its delegate, TensorFlow Lite's where it has none."""
    values = _Values(precision)
    steps = [(i, step) for i, op in enumerate(graph.ops) for step in _kernels(op, device, values)]
    lifetimes = _lifetimes(graph, [step for _, step in steps], values)
    places = offsets(list(lifetimes.values()))
    timeline = [0] * len(graph.ops)
    for (op, _), size in zip(steps, live_bytes(list(lifetimes.values()), len(steps)), strict=True):
        timeline[op] = max(timeline[op], size)
    return GpuMemory(
        tuple(kept_weights(graph, device, precision)),
        tuple(
            Placed(
                tensor=value.name,
                bytes=life.size,
                offset=place,
                first=steps[life.first][0],
                last=steps[life.last][0],
            )
            for (value, life), place in zip(lifetimes.items(), places, strict=True)
        ),
        tuple(timeline),
    )


@dataclass(frozen=True, eq=False)
class _Value:
    """A computed tensor, of the graph or internal to a delegate."""

    name: str
    bytes: int


class _Values:
    """The value of each tensor, created once."""

    def __init__(self, precision: Precision) -> None:
        self._precision = precision
        self._known: dict[Tensor, _Value] = {}

    def of(self, *tensors: Tensor) -> list[_Value]:
        """Return the values of the tensors that are neither constants nor dequantised constants."""
        return [self._one(t) for t in tensors if constant(t) is None]

    def _one(self, tensor: Tensor) -> _Value:
        if tensor not in self._known:
            self._known[tensor] = self.internal(tensor.name, tensor.shape, tensor.dtype)
        return self._known[tensor]

    def internal(self, name: str, shape: Shape, dtype: str) -> _Value:
        """Return a value that is no tensor of the graph."""
        return _Value(name, tensor_bytes(shape, element_bytes(dtype, self._precision)))


def _kernels(op: Op, device: Device, values: _Values) -> list[list[_Value]]:
    """Return the values that each kernel of an operator reads and writes.

    A Winograd convolution has three kernels: they transform the input to 36 values per tile, convolve these,
    and transform the result back (ml_drift/common/gpu_model_builder.cc, WinoConvolution).
    """
    size = convolution(op)
    if size is None or not uses_winograd(device, size):
        return [values.of(*op.operands, *op.outputs)]
    tiled = (size.batch, 36, size.tiles)
    name = op.outputs[0].name
    before = values.internal(f"{name}/winograd input", (*tiled, size.inputs), "FLOAT32")
    after = values.internal(f"{name}/winograd result", (*tiled, size.outputs), "FLOAT32")
    return [[*values.of(op.operands[0]), before], [before, after], [after, *values.of(*op.outputs)]]


def _lifetimes(graph: Graph, steps: list[list[_Value]], values: _Values) -> dict[_Value, Lifetime]:
    """Return the lifetime of each value; inputs live from the start, outputs to the end."""
    if not steps:
        return {}
    first = dict.fromkeys(values.of(*graph.inputs), 0)
    last = dict(first)
    for i, step in enumerate(steps):
        for value in step:
            first.setdefault(value, i)
            last[value] = i
    last |= {value: len(steps) - 1 for value in values.of(*graph.outputs) if value in last}
    return {value: Lifetime(value.bytes, begin, last[value]) for value, begin in first.items()}
