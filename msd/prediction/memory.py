"""How much memory a graph takes on a GPU: an estimate, since no delegate says what it allocated.

It counts what is kept all the time (constants, `msd.prediction.constants`) and what is computed, placed by
`msd.prediction.memory_plan`. It leaves out what drivers and compiled kernels take, and the padding of rows of
textures. It takes no account of operators that a delegate runs as one, whose results between them then need
no memory; nor of delegates that share textures of the same size only, which need more than one piece of
memory does.
"""

from __future__ import annotations

from dataclasses import dataclass

from msd.ir import Graph, Op, Tensor
from msd.prediction.constants import Kept, constant, convolution, kept_weights
from msd.prediction.device import Device, Shape
from msd.prediction.memory_plan import Life, needed, offsets
from msd.prediction.storage import Precision, element_bytes, tensor_bytes


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
    values = _Values(precision)
    steps = [(i, step) for i, op in enumerate(graph.ops) for step in _kernels(op, device, values)]
    lives = _lives(graph, [step for _, step in steps], values)
    places = offsets(list(lives.values()))
    timeline = [0] * len(graph.ops)
    for (op, _), size in zip(steps, needed(list(lives.values()), len(steps)), strict=True):
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
            for (value, life), place in zip(lives.items(), places, strict=True)
        ),
        tuple(timeline),
    )


@dataclass(frozen=True, eq=False)
class _Value:
    """Something computed, whether the graph knows it or not."""

    name: str
    bytes: int


class _Values:
    """Makes the value of each tensor once."""

    def __init__(self, precision: Precision) -> None:
        self._precision = precision
        self._known: dict[Tensor, _Value] = {}

    def of(self, *tensors: Tensor) -> list[_Value]:
        """Return the values of those that are not constant, dequantised or not."""
        return [self._one(t) for t in tensors if constant(t) is None]

    def _one(self, tensor: Tensor) -> _Value:
        if tensor not in self._known:
            self._known[tensor] = self.made(tensor.name, tensor.shape, tensor.dtype)
        return self._known[tensor]

    def made(self, name: str, shape: Shape, dtype: str) -> _Value:
        """Return a value that no tensor stands for."""
        return _Value(name, tensor_bytes(shape, element_bytes(dtype, self._precision)))


def _kernels(op: Op, device: Device, values: _Values) -> list[list[_Value]]:
    """Return what each kernel of an operator reads and writes: a Winograd convolution has three.

    They bring the input to 36 values a tile, convolve these, and bring the result back (ml_drift/common/
    gpu_model_builder.cc, WinoConvolution).
    """
    size = convolution(op)
    if size is None or not device.uses_winograd(size):
        return [values.of(*op.operands, *op.outputs)]
    tiled = (size.batch, 36, size.tiles)
    name = op.outputs[0].name
    before = values.made(f"{name}/winograd input", (*tiled, size.inputs), "FLOAT32")
    after = values.made(f"{name}/winograd result", (*tiled, size.outputs), "FLOAT32")
    return [[*values.of(op.operands[0]), before], [before, after], [after, *values.of(*op.outputs)]]


def _lives(graph: Graph, steps: list[list[_Value]], values: _Values) -> dict[_Value, Life]:
    """Return when each value is needed; inputs are from the start on, outputs to the end."""
    if not steps:
        return {}
    first = dict.fromkeys(values.of(*graph.inputs), 0)
    last = dict(first)
    for i, step in enumerate(steps):
        for value in step:
            first.setdefault(value, i)
            last[value] = i
    last |= {value: len(steps) - 1 for value in values.of(*graph.outputs) if value in last}
    return {value: Life(value.bytes, begin, last[value]) for value, begin in first.items()}
