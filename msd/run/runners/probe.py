"""Probe a Vulkan driver with a tiny model: whether the delegate, or WebGPU, runs on it, and how precisely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msd.errors import DelegateFailed, NoDelegate
from msd.files.scratch import scratch_folder
from msd.run.runners import native_log
from msd.run.runners.child import Bounds, Child
from msd.run.runners.messages import Done, Load, LoadOnGpu, LoadOnWebGpu, RunModel
from msd.run.runners.runner import Precision

if TYPE_CHECKING:
    from msd.gpu.gpu_api import GpuApi
    from msd.graph.ir import Model

SECONDS = 60.0
SHAPE = (1, 5, 3, 8)
PRECISIONS: tuple[Precision, Precision] = ("fp32", "fp16")
TOLERANCE = 1e-2
"""The tolerance relative to the largest product: float16 rounding passes, a wrong result does not."""


@dataclass(frozen=True)
class ProbeResult:
    """The adapter's name and type, as of `VulkanAdapter`, and whether it really computes in float16."""

    name: str
    type: str
    half_floats: bool


def probe(environment: Mapping[str, str], api: GpuApi | None = None) -> ProbeResult:
    """Multiply two tensors under `environment` by the GPU delegate, or by our kernels on `api`.

    Raises NoDelegate when that fails.
    """
    import numpy as np  # the results of most probes are remembered, and then none of this is needed

    from msd.graph import tflite

    values = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    with scratch_folder() as folder, Child(environment, Bounds.of(SECONDS)) as child:
        path = folder / "probe.tflite"
        tflite.write(square(), path)
        try:
            full, half = (_run(child, _load(path, each, api), values) for each in PRECISIONS)
        except DelegateFailed as problem:
            raise NoDelegate((_first_problem(child.log) or str(problem)).rstrip(".")) from problem
        name, kind = _described(half.loaded) if api else _named(child.log)
    if not np.allclose(full.product, values * values, atol=TOLERANCE * float(np.max(values * values))):
        raise NoDelegate(f"{name} computes wrong products")
    return ProbeResult(name, kind, not np.array_equal(full.product, half.product))


@dataclass(frozen=True)
class ProbeRun:
    """What the child answered when it loaded the model, and the product that it computed."""

    loaded: Done
    product: Any


def _load(path: Path, precision: Precision, api: GpuApi | None) -> Load:
    return LoadOnWebGpu(path, precision, api=api) if api else LoadOnGpu(path, precision)


def _run(child: Child, load: Load, values: Any) -> ProbeRun:
    loaded = child.ask(load)
    return ProbeRun(loaded, child.ask(RunModel({"x": values, "y": values})).outputs["xy"])


def _named(log: str) -> tuple[str, str]:
    """Return the name and the type of the delegate's adapter."""
    facts = native_log.parse(log)
    if facts.adapter is None or facts.adapter_type is None:
        raise NoDelegate("the delegate did not name the adapter that it runs on")
    return facts.adapter, facts.adapter_type


def _described(loaded: Done) -> tuple[str, str]:
    """Return the name and the type of WebGPU's adapter."""
    assert loaded.placed is not None, "the child tells it when it has loaded the file"
    assert loaded.program is not None, "the child tells it when it has loaded the file"
    return loaded.placed.processor, "CPU" if loaded.program.software else "GPU"


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
