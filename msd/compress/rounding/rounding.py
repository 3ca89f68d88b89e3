"""The rounding of a component: its layers' integers, found on a calibration, for graphs of all its sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from msd.compress.calibration.inputs import Runs
from msd.compress.encoding.quantize import COMPENSATED, Encode
from msd.compress.encoding.recipe import INTEGERS, Line
from msd.compress.rounding.compensate import Rounded
from msd.compress.rounding.moments import has_bias
from msd.compress.rounding.walk import walk
from msd.graph.ir import Build, Graph, Op, Tensor
from msd.graph.ir.weights import Array, Weights

Key = tuple[str, tuple[str, ...], tuple[int, ...]]
OnLayer = Callable[[int, int], None]
"""Called with how many layers are rounded, and how many there are."""


@dataclass(frozen=True)
class RoundedLayer:
    """A rounded layer: its new weights and bias, and the function that gives the writer its integers."""

    weights: Weights
    bias: Weights | None
    encode: Encode


@dataclass
class Rounding:
    """The rounding of one component on `runs`; the integers are in files in `folder`."""

    runs: Runs
    folder: Path
    layers: dict[Key, RoundedLayer] = field(default_factory=dict)

    def apply(
        self, graph: Graph, lines: Mapping[Tensor, Line], on_layer: OnLayer = lambda done, total: None
    ) -> dict[Tensor, Encode]:
        """Give the layers of `graph` rounded weights; return how the writer gets the integers of each.

        `lines` say how each weight is stored. Those with a calibrated algorithm are rounded, but tables, and
        weights that several operators read. Graphs after the first, of other sizes, get the same numbers.
        """
        wanted = {op: lines[op.operands[1]] for op in graph.ops if _is_rounded(op, lines)}
        keys = {op: _key(op) for op in wanted}
        if wanted and not self.layers:
            self._round(graph, wanted, keys, on_layer)
        encoders = {}
        for op, key in keys.items():
            if key in self.layers:
                _put(op, self.layers[key])
                encoders[op.operands[1]] = self.layers[key].encode
        return encoders

    def _round(
        self, graph: Graph, wanted: Mapping[Op, Line], keys: Mapping[Op, Key], on_layer: OnLayer
    ) -> None:
        def on_rounded(op: Op, rounded: Rounded) -> None:
            path = self.folder / f"{len(self.layers)}.npz"
            np.savez(path, stored=rounded.stored, scale=rounded.scale)
            self.layers[keys[op]] = _described(op, path, rounded.mean)
            _put(op, self.layers[keys[op]])
            on_layer(len(self.layers), len(wanted))

        walk(graph, wanted, self.runs, on_rounded)


def _is_rounded(op: Op, lines: Mapping[Tensor, Line]) -> bool:
    """Whether the operator is a plain convolution whose weights a calibrated algorithm rounds."""
    if op.kind != "CONV_2D" or op.operands[1] not in lines or len(op.operands[1].uses) > 1:
        return False
    line, (x, weights) = lines[op.operands[1]], op.operands[:2]
    return line.store in INTEGERS and line.algorithm in COMPENSATED and x.shape[-1] == weights.shape[-1]


def _key(op: Op) -> Key:
    tensor = op.operands[1]
    return tensor.name, tensor.weights.sources, tensor.shape


def _described(op: Op, path: Path, mean: Array) -> RoundedLayer:
    """Return the layer whose integers are in the file `path`, and whose bias gets `mean`."""
    old = op.operands[1].weights

    def stored() -> tuple[Array, Array]:
        with np.load(path) as file:
            return file["stored"].reshape(old.shape), file["scale"]

    def read() -> Array:
        integers, scale = stored()
        return np.asarray(integers * scale.reshape(-1, 1, 1, 1), np.float32)

    weights = Weights(
        shape=old.shape,
        dtype=np.dtype(np.float32),
        read=read,
        history=f"{old.history} | rounded",
        sources=old.sources,
    )
    bias = None
    if has_bias(op):
        added = np.asarray(mean, np.float32)
        bias = replace(
            op.operands[2].weights.map("corrected", lambda b: b + added.reshape(b.shape)), exact=False
        )
    return RoundedLayer(weights, bias, lambda weights: stored())


def _put(op: Op, layer: RoundedLayer) -> None:
    """Give a convolution the rounded weights, and a bias of its own."""
    op.operands[1].data = layer.weights
    if layer.bias is not None and op.operands[2].data is not layer.bias:
        new = Build().const(layer.bias, op.operands[2].name)
        op.inputs = (*op.inputs[:2], new, *op.inputs[3:])
