"""Measure the components of one bundle, or of two in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msd.bundle import Bundle
from msd.errors import BadModelFile, DelegateFailed
from msd.graph import tflite
from msd.graph.ir.executed_graphs import executed_ops
from msd.measure.bench.result import Measurement
from msd.run.runners.backend import Backend, MeasuredFile, Report
from msd.run.runners.child import ChildLost, ChildRefused
from msd.run.runners.engine import Engine
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Runner
from msd.run.runners.timings import Effort, interleaved, summarise


class TimedFile:
    """A file loaded on an engine, to be run on seeded random inputs; a context manager.

    Raises BadModelFile for a file that is no model, and DelegateFailed where the engine refuses it or its
    process dies or exceeds its bounds.
    """

    def __init__(self, path: Path, engine: Engine) -> None:
        self.path, self.backend = path, engine.backend
        with _naming_backend(self.backend, path):
            self.runner: Runner = engine.load(path)
        self._inputs = random_inputs(self.runner.inputs.values())

    def run(self) -> float:
        """Return the seconds of one run, from inputs in memory to outputs in memory."""
        with _naming_backend(self.backend, self.path):
            self.runner.run(self._inputs)
        return self.runner.run_seconds[-1]

    def __enter__(self) -> TimedFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.runner.__exit__(None, None, None)


def measure(
    bundles: Sequence[Bundle], component: str, engine: Engine, effort: Effort, report: Report
) -> list[Measurement]:
    """Return a measurement of `component` in each bundle; all are loaded at once, and their runs take turns.

    Raises BadBundle where a bundle lacks the component, and the errors of `TimedFile`.
    """
    with ExitStack() as stack:
        files: list[TimedFile] = []
        for bundle in bundles:
            path = bundle.path(component)
            report(f"loading {path}")
            file = TimedFile(path, engine.on(bundle.component(component).runs_on))
            files.append(stack.enter_context(file))
        return [
            measurement(component, file.backend, file.path, result)
            for file, result in zip(files, _in_turn(files, effort, report), strict=True)
        ]


def _in_turn(files: Sequence[TimedFile], effort: Effort, report: Report) -> list[MeasuredFile]:
    report("first run")
    firsts, runs = [file.run() for file in files], [file.run for file in files]
    warming = Effort(effort.warmups, 0, 0.0, effort.max_seconds)
    warmups = interleaved(runs, warming, lambda count, last: report(f"warm-up {count}"))
    seconds = interleaved(runs, effort, lambda count, last: report(f"run {count}, {last:.3f} s"))
    return [
        MeasuredFile(file.placement, summarise(file.load_seconds, first, warm, each), file.memory)
        for file, first, warm, each in zip((f.runner for f in files), firsts, warmups, seconds, strict=True)
    ]


def measurement(component: str, backend: Backend, path: Path, result: MeasuredFile) -> Measurement:
    """Return the record of one measured file of a component."""
    place = result.placement
    return Measurement(
        component=component,
        backend=backend.name,
        adapter=place.processor,
        precision=place.precision,
        threads=place.threads,
        bytes=path.stat().st_size,
        operations=len(executed_ops(tflite.read(path))),
        delegate=place.delegate,
        nodes=place.nodes,
        delegated=place.delegated,
        partitions=place.partitions,
        timings=result.timings,
        memory=result.memory,
        notes=place.notes,
    )


@contextmanager
def _naming_backend(backend: Backend, path: Path) -> Iterator[None]:
    """Add the backend's name to the error for a file that is refused or whose process is lost."""
    try:
        yield
    except (BadModelFile, DelegateFailed) as problem:
        cause = problem.__cause__
        if isinstance(cause, ChildLost):
            raise DelegateFailed(f"{path} was lost on {backend.name}: {cause}") from problem
        if isinstance(cause, ChildRefused) and not backend.names_itself:
            raise DelegateFailed(f"{backend.name} refuses {path}: {cause.why}") from problem
        raise
