"""The steps of `msd bench`, from bundles to a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msd
from msd.bundle import Bundle
from msd.errors import BadModelFile, DelegateFailed
from msd.files.packages import installed_versions
from msd.files.wording import counted
from msd.gpu.gpu_api import IMPLEMENTATIONS
from msd.measure.bench.image_time import SECONDS, can_generate, generate_timed, image_time
from msd.measure.bench.measure import measure, measurement
from msd.measure.bench.result import (
    Benchmark,
    BundleMeasurements,
    ImageTime,
    Measurement,
    Refusal,
    ratios,
    when_and_what,
)
from msd.run.runners.backend import Backend, Report
from msd.run.runners.engine import Engine
from msd.run.runners.machine import Machine, this_machine
from msd.run.runners.registry import backends, find_backend
from msd.run.runners.runner import Conditions
from msd.run.runners.timings import Effort
from msd.run.runtime.execution import Execution

REFUSED = (BadModelFile, DelegateFailed)
"""The errors that stop the measurement of one file but not of the others."""

MeasureAll = Callable[[list[Bundle]], list[Measurement]]
"""Measures one component of several bundles."""

OnProgress = Callable[[str, float], None]
"""Called with the current activity, in a few words, and the completed fraction of all work."""


OnStopped = Callable[[Benchmark], None]
"""Called with what was measured before something ended a benchmark."""


@dataclass(frozen=True)
class BenchSettings:
    """The settings of a benchmark.

    `backends` are names or aliases (msd.run.runners.registry). No `components` means all of them. The time of
    an image is computed for `steps` steps, None for each bundle's own number, and one image is generated in
    `draw` steps with this `execution`. `options` holds, for each backend that measures by itself, the values
    of its own options by name.
    """

    backends: tuple[str, ...]
    components: tuple[str, ...] = ()
    steps: int | None = None
    draw: int = 2
    conditions: Conditions = field(default_factory=Conditions)
    execution: Execution = "pipelined"
    effort: Effort = field(default_factory=Effort)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def benchmark(
    bundles: Sequence[Bundle],
    settings: BenchSettings,
    command: str,
    on_progress: OnProgress,
    on_stopped: OnStopped | None = None,
) -> Benchmark:
    """Return the measurements of one bundle, or of two in turn; `command` is recorded in the result.

    A network that a backend refuses or crashes on is among the refusals; the others are measured. Raises
    NoDelegate without an adapter for the GPU, PhoneFailed where a phone cannot be used, BadBundle for a
    component that is missing, BadConfig for a backend that is not installed. `on_stopped` gets what was
    measured before that, or before Ctrl-C.
    """
    machine, work = this_machine(), _Bench(bundles, settings, on_progress)
    try:
        for backend in dict.fromkeys(map(find_backend, settings.backends)):
            work.measure(backend)
    except BaseException:
        if on_stopped and any(work.measurements):
            on_stopped(work.benchmark(command, machine))
        raise
    return work.benchmark(command, machine)


class _Bench:
    """The bundles to measure, and the results so far of each."""

    def __init__(self, bundles: Sequence[Bundle], settings: BenchSettings, on_progress: OnProgress) -> None:
        self.bundles, self.settings, self.on_progress = bundles, settings, on_progress
        self.measurements: list[list[Measurement]] = [[] for _ in bundles]
        self.image_times: list[list[ImageTime]] = [[] for _ in bundles]
        self.refusals: list[list[Refusal]] = [[] for _ in bundles]
        self.phone: dict[str, str] | None = None
        self.components = settings.components or _components(bundles)
        self.done, self.tasks = 0, len(settings.backends) * (len(self.components) + 1)

    def benchmark(self, command: str, machine: Machine) -> Benchmark:
        """Return the results so far of all bundles."""
        results = tuple(map(self.result, range(len(self.bundles))))
        return Benchmark(
            command=command,
            machine=machine,
            versions=_versions(),
            effort=self.settings.effort,
            bundles=results,
            ratios=ratios(*results) if len(results) == 2 else (),
            phone=self.phone,
            **when_and_what(),
        )

    def result(self, i: int) -> BundleMeasurements:
        """Return the results of bundle `i`."""
        bundle = self.bundles[i]
        return BundleMeasurements(
            bundle=str(bundle.folder),
            model_hash=bundle.model_hash,
            recipe=bundle.manifest.configuration.recipe.name,
            measurements=tuple(self.measurements[i]),
            wholes=tuple(self.image_times[i]),
            refusals=tuple(self.refusals[i]),
        )

    def measure(self, backend: Backend) -> None:
        if backend.connect:
            self._measure_on_device(backend)
            return
        self._report(f"{backend.name}: setting up")
        engine = self._engine(backend)
        for component in self.components:
            if self._is_measured(component, engine):
                self.done += 1
                continue
            report = self._reporter(f"{component} on {backend.name}")

            def in_turn(
                bundles: list[Bundle], name: str = component, report: Report = report
            ) -> list[Measurement]:
                return measure(bundles, name, engine, self.settings.effort, report)

            self._record(component, backend, in_turn)
        self._add_image_times(engine)

    def _engine(self, backend: Backend) -> Engine:
        conditions = replace(self.settings.conditions, isolation="process", seconds=SECONDS)
        return Engine(backend, backend.prepare(conditions))

    def _is_measured(self, component: str, engine: Engine) -> bool:
        """Whether a file for the CPU has already been measured there for another backend."""
        first = self._having(component)[0]
        earlier = {(m.component, m.backend) for m in self.measurements[first]}
        file = self.bundles[first].manifest.components.get(component)
        return file is not None and (component, engine.on(file.runs_on).backend.name) in earlier

    def _measure_on_device(self, backend: Backend) -> None:
        """Measure on a device that measures each file by itself, such as a phone."""
        assert backend.connect is not None, "`measure` calls this for such backends only"
        engine, effort = Engine(backend, self.settings.conditions), self.settings.effort
        with backend.connect(self.settings.options[backend.name], self._reporter("phone")) as device:
            self.phone = device.description
            for component in self.components:
                report = self._reporter(f"{component} on the phone")

                def one_by_one(
                    bundles: list[Bundle], name: str = component, report: Report = report
                ) -> list[Measurement]:
                    measurements = []
                    for path, runs_on in [(b.path(name), b.component(name).runs_on) for b in bundles]:
                        result = device.measure(path, runs_on, engine.precision, effort, report)
                        measurements.append(measurement(name, backend, path, result))
                    return measurements

                self._record(component, backend, one_by_one)
        self._add_image_times(engine)

    def _add_image_times(self, engine: Engine) -> None:
        name, steps = engine.backend.name, self.settings.draw
        for i, bundle in enumerate(self.bundles):
            generation, refused = None, any(r.backend == name for r in self.refusals[i])
            if steps and not self.settings.components and not refused and can_generate(bundle, engine):
                self._report(f"{name}: generating an image in {counted(steps, 'step')}")
                generation = generate_timed(bundle, engine, steps, self.settings.execution)
            time = image_time(bundle, name, self._on(name, i), self.settings.steps, generation)
            self.image_times[i] += [time] if time else []
        self.done += 1

    def _on(self, backend: str, i: int) -> list[Measurement]:
        """Return the measurements of bundle `i` on a backend, including its files for the CPU."""
        for_cpu = {n for n, file in self.bundles[i].manifest.components.items() if file.runs_on == "cpu"}
        return [m for m in self.measurements[i] if m.backend == backend or m.component in for_cpu]

    def _having(self, component: str) -> list[int]:
        """Return the numbers of the bundles with the component; all if none has it, to raise the error."""
        having = [i for i, b in enumerate(self.bundles) if component in b.manifest.components]
        return having or list(range(len(self.bundles)))

    def _record(self, component: str, backend: Backend, measure_all: MeasureAll) -> None:
        """Measure the bundles together, or each of them alone where the backend refuses one."""
        numbers = self._having(component)
        try:
            measurements = measure_all([self.bundles[i] for i in numbers])
        except REFUSED as problem:
            if len(numbers) == 1:
                self._refuse(numbers[0], component, backend, problem)
            else:
                for i in numbers:
                    self._record_one(i, component, backend, measure_all)
        else:
            for i, measurement in zip(numbers, measurements, strict=True):
                self.measurements[i].append(measurement)
        self.done += 1

    def _record_one(self, i: int, component: str, backend: Backend, measure_all: MeasureAll) -> None:
        try:
            self.measurements[i] += measure_all([self.bundles[i]])
        except REFUSED as problem:
            self._refuse(i, component, backend, problem)

    def _refuse(self, i: int, component: str, backend: Backend, problem: Exception) -> None:
        self.refusals[i].append(Refusal(component, backend.name, str(problem)))

    def _reporter(self, task: str) -> Report:
        return lambda activity: self._report(f"{task}: {activity}")

    def _report(self, activity: str) -> None:
        self.on_progress(activity, self.done / self.tasks)


def _components(bundles: Sequence[Bundle]) -> tuple[str, ...]:
    """Return the components that one of the bundles has, in the order in which they run."""
    files = dict.fromkeys(name for bundle in bundles for name in bundle.family.files)
    return tuple(name for name in files if any(name in each.manifest.components for each in bundles))


def _versions() -> dict[str, str]:
    others = [backend.package[0] for backend in backends().values() if backend.package]
    others += [each.package for each in IMPLEMENTATIONS.values()]
    return {"msd": msd.__version__, **installed_versions("ai-edge-litert", *others, "numpy")}
