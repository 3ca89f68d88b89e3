"""The range of every tensor, and of the partial sums on the way to it, for comparison with float16's.

Each operation gets others that reduce its result to one number, and each that sums gets a twin on absolute
values: no partial sum, in any order, is larger than the twin's. The file runs on the CPU in float32, and no
tensor needs to be kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from msd.compress.calibration.activations import PIECE, watch
from msd.errors import BadModelFile
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Op, Tensor
from msd.graph.ir.float_weights import dequantize_weights
from msd.graph.ir.weights import Array

Twin = Callable[[Build, Op], Tensor]
"""Builds an operation's twin on absolute values."""

LARGEST = 65504.0
SMALLEST_NORMAL = 2.0**-14
"""float16: larger values become infinite, and smaller ones lose digits, down to 0 below 2⁻²⁴."""

CURES = {
    "ADD": "scale_activations",
    "CONV_2D": "scale_activations",
    "RESHAPE": "scale_activations",
    "RESIZE_NEAREST_NEIGHBOR": "scale_activations",
    "SUB": "scale_activations",
    "BATCH_MATMUL": "scale_query",
    "SQUARE": "lower_group_norm",
    "SQUARED_DIFFERENCE": "lower_group_norm",
    "POW": "clip_gelu",
    "GELU": "clip_gelu",
    "TANH": "clip_gelu",
    "MUL": "clip_gelu",
    "MEAN": "lower_group_norm",
    "SUM": "lower_group_norm",
}
"""Rewrites that keep the results of such operations small, where their pattern is found; of
scale_activations, where a conversion has measured them.
"""


@dataclass(frozen=True)
class Range:
    """The range of operation `op`, an index in the file, over all inputs: the `largest` magnitude of its
    result `tensor`, and a bound on its partial `sums`, None for an operation that does not sum.
    """

    op: int
    kind: str
    tensor: str
    largest: float
    sums: float | None

    @property
    def overflows(self) -> bool:
        """Whether float16 cannot hold the result."""
        return not self.largest <= LARGEST

    @property
    def sums_overflow(self) -> bool:
        """Whether a partial sum may be beyond float16: that harms where sums are kept in float16 too."""
        return self.sums is not None and not self.sums <= LARGEST

    @property
    def vanishes(self) -> bool:
        """Whether float16 holds none of its values with all digits."""
        return 0 < self.largest < SMALLEST_NORMAL

    @property
    def cure(self) -> str | None:
        """The rewrite that may help, or None."""
        return CURES.get(self.kind) if self.overflows else None


def audit(path: Path, inputs: Iterable[Mapping[str, Array]], piece: int = PIECE) -> tuple[Range, ...]:
    """Return the range of every float32 result of the file's first graph over `inputs`, in the file's order.

    Only about `piece` weights are in memory at a time. Raises BadModelFile where the CPU cannot run the file,
    or where shapes are not fixed.
    """
    model = tflite.read(path)
    watched = [(i, op) for i, op in enumerate(model.main.ops) if op.outputs[0].dtype == "FLOAT32"]
    dequantize_weights(model)
    try:
        found = _largest(model.main, [op for _, op in watched], TWINS, inputs, piece)
    except (TypeError, ValueError) as problem:
        raise BadModelFile(f"{path} cannot be audited: {problem}") from problem
    return tuple(
        Range(op=i, kind=op.kind, tensor=op.outputs[0].name, largest=largest, sums=sums)
        for (i, op), (largest, sums) in zip(watched, found, strict=True)
    )


def magnitudes(
    graph: Graph, tensors: Iterable[Tensor], inputs: Iterable[Mapping[str, Array]], piece: int = PIECE
) -> dict[str, float]:
    """Return the largest magnitude over `inputs` of float32 results of `graph`, by the names of the tensors.

    Infinite where one has a NaN. Adds what measures them to `graph`, whose weights are numbers. Only about
    `piece` weights are in memory at a time.
    """
    makers = list(dict.fromkeys(tensor.maker for tensor in tensors))
    found = _largest(graph, makers, {}, inputs, piece)
    return {op.outputs[0].name: largest for op, (largest, _) in zip(makers, found, strict=True)}


def _largest(
    graph: Graph,
    watched: Sequence[Op],
    twins: Mapping[str, Twin],
    inputs: Iterable[Mapping[str, Array]],
    piece: int,
) -> list[tuple[float, float | None]]:
    """Return for each operation its largest result, and its largest sum where its kind has a twin."""
    largest: dict[Tensor, float] = {}

    def keep(probe: Tensor, value: Array) -> None:
        largest[probe] = _larger(largest.get(probe, 0.0), float(value))

    probes = _probes(graph, watched, twins)
    watch(graph, inputs, [probe for pair in probes for probe in pair if probe], keep, piece)
    return [(largest[result], largest[sums] if sums else None) for result, sums in probes]


def _larger(a: float, b: float) -> float:
    """Return the larger of two; NaN counts as infinity."""
    return math.inf if math.isnan(b) else max(a, b)


def _probes(
    graph: Graph, watched: Iterable[Op], twins: Mapping[str, Twin]
) -> list[tuple[Tensor, Tensor | None]]:
    """Add operations to `graph` that measure the largest results and sums; return theirs, by operation.

    Each stands behind the operation that it measures, so that the memory of a result is free after it.
    """
    new, probes, behind = Build("probe"), list[tuple[Tensor, Tensor | None]](), dict[Op, list[Op]]()
    for op in watched:
        first = len(new.ops)
        peaks = [_peak(new, new.ABS(t)) for t in op.outputs if t.dtype == "FLOAT32"]
        sums = _peak(new, twins[op.kind](new, op)) if op.kind in twins else None
        probes.append((reduce(new.MAXIMUM, peaks), sums))
        behind[op] = new.ops[first:]
    graph.ops = [each for op in graph.ops for each in (op, *behind.get(op, ()))]
    return probes


def _peak(new: Build, x: Tensor) -> Tensor:
    """Return the largest element, NaN where any is NaN or infinite: maxima pass NaN over."""
    if not x.shape:
        return x
    axes = list(range(len(x.shape)))
    nothing = new.SUM(new.MUL(x, 0.0), axes, keep_dims=False)
    return new.ADD(new.REDUCE_MAX(x, axes, keep_dims=False), nothing)


def _filtered(new: Build, op: Op) -> Tensor:
    """Return a filter's result on absolute values."""
    return new.again(op, *(t and new.ABS(t) for t in op.inputs), fused_activation_function="NONE")


def _multiplied(new: Build, op: Op) -> Tensor:
    return new.again(op, *(new.ABS(t) for t in op.operands))


def _added(new: Build, op: Op) -> Tensor:
    """Return the sum, also for a mean, which is divided afterwards."""
    x, axes = op.operands
    return new.SUM(new.ABS(x), axes, keep_dims=op.attrs["keep_dims"])


TWINS: dict[str, Twin] = {
    "BATCH_MATMUL": _multiplied,
    "CONV_2D": _filtered,
    "DEPTHWISE_CONV_2D": _filtered,
    "FULLY_CONNECTED": _filtered,
    "MEAN": _added,
    "SUM": _added,
}
"""Functions that build an operation's twin on absolute values, for the operations that sum."""
