"""The 3x3 convolutions of a network that Winograd's algorithm can compute, by their shapes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from msd.gpu.fuse import fuse
from msd.gpu.gpu_api import GpuApi
from msd.gpu.kinds import FILTER
from msd.gpu.switches import Switches
from msd.graph import tflite
from msd.graph.ir import Op
from msd.run.runners.runner import Precision


@dataclass(frozen=True)
class WinogradShape:
    """A 3x3 convolution without stride whose result is as large as its input."""

    batch: int
    height: int
    width: int
    inputs: int
    outputs: int

    @property
    def flops(self) -> int:
        """Additions and multiplications of the convolution."""
        return 2 * self.batch * self.height * self.width * 9 * self.inputs * self.outputs


@dataclass(frozen=True)
class MeasureShape:
    """The request to measure a shape in all tile sizes; each time is the median of `repeats`.

    `api`: the implementation of WebGPU.
    """

    shape: WinogradShape
    precision: Precision
    repeats: int
    api: GpuApi | None = None


def shapes_of(path: Path) -> dict[WinogradShape, int]:
    """Return the shapes in a file and how often each occurs, the most arithmetic first.

    One that reads upsampled pixels counts as one that reads as many real ones. Raises BadModelFile.
    """
    graph = tflite.read(path).main
    fuse(graph, Switches())
    found = Counter(shape for op in graph.ops if (shape := _shape(op)) is not None)
    return dict(sorted(found.items(), key=lambda item: -item[1] * item[0].flops))


def _shape(op: Op) -> WinogradShape | None:
    weights = op.inputs[FILTER] if op.kind == "CONVOLUTION" else None
    if weights is None or weights.shape[1:3] != (3, 3):
        return None
    attrs, (batch, height, width, outputs) = op.attrs, op.outputs[0].shape
    if attrs["stride"] != (1, 1) or attrs["dilation"] != (1, 1) or attrs["pad"] != (1, 1):
        return None
    scale = attrs["upsample"]
    if (height, width) != (scale * op.operands[0].shape[1], scale * op.operands[0].shape[2]):
        return None
    return WinogradShape(batch=batch, height=height, width=width, inputs=weights.shape[3], outputs=outputs)
