"""Winograd's tile sizes on a network's own shapes: the paper's Table 2, measured beside computed."""

from __future__ import annotations

import math

from msd.errors import DelegateFailed
from msd.measure.profiling.measure import NetworkFile
from msd.measure.profiling.result import ShapeCosts, TileCost, WinogradCosts
from msd.measure.profiling.shapes import MeasureShape, WinogradShape, shapes_of
from msd.run.runners.backend import Report
from msd.run.runners.backends.webgpu import SECONDS
from msd.run.runners.child import Bounds, Child
from msd.run.runners.messages import Done
from msd.run.runners.runner import Conditions

WORKER = "msd.measure.profiling.winograd_worker"
EXACT = 400.0
"""The decibels that stand for no error at all: JSON has no infinity."""


def measure_tiles(
    file: NetworkFile, conditions: Conditions, repeats: int, report: Report
) -> WinogradCosts | None:
    """Return the costs of each shape of a file in each tile size, None for a file without such convolutions.

    Weights are int8, and all numbers random. Raises DelegateFailed where WebGPU is lost or refuses.
    """
    shapes = shapes_of(file.path)
    if not shapes:
        return None
    assert conditions.adapter is not None, "prepared conditions have an adapter"
    costs: list[ShapeCosts] = []
    with Child(conditions.adapter.environment, Bounds.of(SECONDS), WORKER) as child:
        for number, (shape, count) in enumerate(shapes.items(), 1):
            report(f"shape {number} of {len(shapes)}")
            try:
                done = child.ask(MeasureShape(shape, conditions.precision, repeats, conditions.gpu_api))
            except DelegateFailed as problem:
                raise DelegateFailed(f"tile sizes of {file.path} were not measured: {problem}") from problem
            costs.append(_costs(shape, count, done))
    assert done.placed is not None, "the worker tells it with each shape"
    return WinogradCosts(
        component=file.component,
        adapter=done.placed.processor,
        software=bool(done.outputs["software"]),
        precision=done.placed.precision,
        shapes=tuple(costs),
    )


def _costs(shape: WinogradShape, count: int, done: Done) -> ShapeCosts:
    found = zip(*(done.outputs[name].tolist() for name in ("tiles", "seconds", "decibels")), strict=True)
    return ShapeCosts(
        height=shape.height,
        width=shape.width,
        inputs=shape.inputs,
        outputs=shape.outputs,
        count=count,
        chosen=int(done.outputs["chosen"]),
        tiles=tuple(
            TileCost(tile, seconds, decibels if math.isfinite(decibels) else EXACT)
            for tile, seconds, decibels in found
        ),
    )
