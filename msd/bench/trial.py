"""One file loaded in a process of its own, to be run and timed there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from msd import tflite
from msd.bench.result import Backend, Measurement, Memory, Precision
from msd.bench.timings import Timings
from msd.bundle import Bundle
from msd.errors import DelegateFailed
from msd.ir.executed_graphs import executed_graphs
from msd.ir.interface import Interface
from msd.runners import native_log, tflite_runtime
from msd.runners.adapter import Adapter
from msd.runners.child import Bounds, Child, ChildLost, ChildRefused
from msd.runners.gpu_process import refusal
from msd.runners.interpreter import Library, one_line
from msd.runners.random_inputs import random_inputs
from msd.runners.worker import Done, LoadOnCpu, LoadOnGpu, Run

SECONDS = 600.0
"""All that one compilation, or one run, may take."""


@dataclass(frozen=True)
class Place:
    """Where networks run and how: `adapter` is for the GPU, `threads` and `float_weights` for the CPU."""

    backend: Backend
    precision: Precision = "fp32"
    threads: int | None = None
    float_weights: bool = True
    adapter: Adapter | None = None

    def of(self, bundle: Bundle, component: str) -> Place:
        """Return where a component runs: a file that is for the CPU never runs elsewhere."""
        for_cpu = bundle.component(component).runs_on == "cpu" and self.backend == "litert-gpu"
        return Place("litert-cpu", "fp32", self.threads, True) if for_cpu else self


class Trial:
    """A component of a bundle, loaded; a context manager.

    Raises BadModelFile for a file that is no model, and DelegateFailed where it is refused or its process
    dies or exceeds its bounds.
    """

    def __init__(self, component: str, path: Path, place: Place) -> None:
        self.component, self.path, self.place = component, path, place
        model = tflite.read(path)
        if place.backend == "tflite-runtime" and not place.float_weights:
            tflite_runtime.refuse_int4(model, path)
        ports = Interface.of(model, path)
        self._operations = sum(len(graph.ops) for graph in executed_graphs(model))
        self._inputs = Run(random_inputs(ports.inputs.values()))
        environment = place.adapter.environment if place.adapter else {}
        self._child = Child(environment, Bounds.of(SECONDS))
        self._peak = 0
        try:
            self._loaded = self._ask(self._load(ports.signature))
        except BaseException:
            self.__exit__(None, None, None)
            raise

    @property
    def init(self) -> float:
        """The seconds that loading took."""
        return self._loaded.seconds

    def run(self) -> float:
        """Return the seconds of one run, from inputs in memory to outputs in memory."""
        return self._ask(self._inputs).seconds

    def measurement(self, timings: Timings) -> Measurement:
        """Return what is known of the file and of its runs until now."""
        place, facts = self.place, native_log.parse(self._child.log)
        on_gpu = place.adapter is not None
        ((delegated, nodes, partitions),) = (facts.replaced if on_gpu else facts.on_cpu)[:1] or (
            (None, None, None),
        )
        half = place.adapter is not None and place.precision == "fp16" and place.adapter.half_floats
        return Measurement(
            self.component,
            place.backend,
            (facts.adapter or place.adapter.name) if place.adapter else "CPU",
            "fp16" if half else ("fp32" if on_gpu else place.precision),
            None if on_gpu else self._threads,
            self.path.stat().st_size,
            self._operations,
            "ML Drift" if on_gpu else "XNNPACK",
            nodes,
            delegated,
            partitions,
            timings,
            Memory(self._loaded.before, self._peak),
            self._notes(half),
        )

    def _notes(self, half: bool) -> tuple[str, ...]:
        place = self.place
        if place.adapter is None or place.precision != "fp16" or half:
            return ()
        return (f"fp16 was asked for, but {place.adapter.name} computes in fp32",)

    @property
    def _threads(self) -> int:
        return self.place.threads or os.cpu_count() or 1

    def _load(self, signature: str | None) -> LoadOnCpu | LoadOnGpu:
        place = self.place
        if place.backend == "litert-gpu":
            return LoadOnGpu(self.path, "fp16" if place.precision == "fp16" else "fp32", signature)
        library: Library = "tflite_runtime" if place.backend == "tflite-runtime" else "ai_edge_litert"
        return LoadOnCpu(self.path, self._threads, place.float_weights, library)

    def _ask(self, request: LoadOnCpu | LoadOnGpu | Run) -> Done:
        backend = self.place.backend
        try:
            done = self._child.ask(request)
        except ChildLost as problem:
            raise DelegateFailed(f"{self.path} was lost on {backend}: {problem}") from problem
        except ChildRefused as problem:
            raise DelegateFailed(self._refusal(problem)) from problem
        self._peak = max(self._peak, done.peak)
        return done

    def _refusal(self, problem: ChildRefused) -> str:
        if self.place.backend == "tflite-runtime":
            return tflite_runtime.refusal(self.path, one_line(problem))
        why = refusal(self._child.log, problem) if self.place.adapter else one_line(problem)
        return f"{self.path} is refused by {self.place.backend}: {why}"

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.close()
