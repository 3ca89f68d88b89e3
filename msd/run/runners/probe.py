"""Probe a Vulkan driver with a tiny model: whether the GPU delegate runs on it, and in which precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msd.errors import DelegateFailed, NoDelegate
from msd.files.scratch import scratch_folder
from msd.run.runners import native_log
from msd.run.runners.child import Bounds, Child
from msd.run.runners.messages import LoadOnGpu, RunModel
from msd.run.runners.runner import Precision

if TYPE_CHECKING:
    from msd.graph.ir import Model

SECONDS = 60.0
SHAPE = (1, 5, 3, 8)
TOLERANCE = 1e-2
"""The tolerance relative to the largest product: float16 rounding passes, a wrong result does not."""


@dataclass(frozen=True)
class ProbeResult:
    """The adapter's name and type as Dawn reports them, and whether it really computes in float16."""

    name: str
    type: str
    half_floats: bool


def probe(environment: Mapping[str, str]) -> ProbeResult:
    """Multiply two tensors on the GPU under `environment`; raises NoDelegate when that fails."""
    import numpy as np  # the results of most probes are remembered, and then none of this is needed

    from msd.graph import tflite

    values = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    with scratch_folder() as folder, Child(environment, Bounds.of(SECONDS)) as child:
        path = folder / "probe.tflite"
        tflite.write(square(), path)
        try:
            full, half = (_run(child, path, precision, values) for precision in ("fp32", "fp16"))
        except DelegateFailed as problem:
            raise NoDelegate((_first_problem(child.log) or str(problem)).rstrip(".")) from problem
        facts = native_log.parse(child.log)
    if facts.adapter is None or facts.adapter_type is None:
        raise NoDelegate("the delegate did not name the adapter that it runs on")
    if not np.allclose(full, values * values, atol=TOLERANCE * float(np.max(values * values))):
        raise NoDelegate(f"{facts.adapter} computes wrong products")
    return ProbeResult(facts.adapter, facts.adapter_type, not np.array_equal(full, half))


def _run(child: Child, path: Path, precision: Precision, values: Any) -> Any:
    child.ask(LoadOnGpu(path, precision))
    return child.ask(RunModel({"x": values, "y": values})).outputs["xy"]


def _first_problem(text: str) -> str | None:
    return next(iter(native_log.parse(text).problems), None)


def square() -> Model:
    """Return a model with one MUL of two float32 inputs `x` and `y` of shape `SHAPE` into `xy`."""
    from msd.graph.ir import Build, Graph, Model, Tensor

    x, y = Tensor("x", SHAPE), Tensor("y", SHAPE)
    new = Build()
    product = new.MUL(x, y)
    product.name = "xy"
    return Model([Graph([x, y], [product], new.ops)])
