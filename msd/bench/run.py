"""All that `msd bench` does, from bundles to a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msd
from msd.bench.measure import measure, measurement
from msd.bench.result import Benched, Benchmark, Measurement, Refusal, Whole, ratios
from msd.bench.whole import SECONDS, can_draw, draw, whole
from msd.bundle import Bundle
from msd.errors import BadModelFile, DelegateFailed
from msd.runners.backend import Backend, Report
from msd.runners.engine import Engine
from msd.runners.machine import this_machine
from msd.runners.registry import backends, find_backend
from msd.runners.runner import Conditions
from msd.runners.timings import Effort
from msd.runtime.execution import Execution

REFUSED = (BadModelFile, DelegateFailed)
"""What says that one file cannot be run, or was lost, in one place."""

OnProgress = Callable[[str, float], None]
"""Told what is being done, in a few words, and which part of it all has been done."""


@dataclass(frozen=True)
class BenchSettings:
    """What to measure: `components` are all where none is named; `draw`: steps of a picture really drawn, and
    `execution` how.

    `backends` are names or aliases (msd.runners.registry). `options`: for each backend that measures by
    itself, the values of its own options by their names.
    """

    backends: tuple[str, ...]
    components: tuple[str, ...] = ()
    steps: int = 20
    draw: int = 2
    conditions: Conditions = field(default_factory=Conditions)
    execution: Execution = "pipelined"
    effort: Effort = field(default_factory=Effort)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def benchmark(
    bundles: Sequence[Bundle], settings: BenchSettings, command: str, on_progress: OnProgress
) -> Benchmark:
    """Return what was measured of one bundle, or of two in turn; `command` is noted in it.

    A network that a backend refuses or is lost with is among the refusals; the others are measured. Raises
    NoDelegate without an adapter for the GPU, PhoneFailed where a phone cannot be used, BadBundle for a
    component that is missing, BadConfig for a backend that is not installed.
    """
    machine, work = this_machine(), _Bench(bundles, settings, on_progress)
    for backend in dict.fromkeys(map(find_backend, settings.backends)):
        work.measure(backend)
    benched = tuple(map(work.benched, range(len(bundles))))
    compared = ratios(*benched) if len(benched) == 2 else ()
    return Benchmark(
        command=command,
        machine=machine,
        versions=_versions(),
        effort=settings.effort,
        bundles=benched,
        ratios=compared,
        phone=work.phone,
    )


class _Bench:
    """Bundles to be measured, and what has been measured of each."""

    def __init__(self, bundles: Sequence[Bundle], settings: BenchSettings, on_progress: OnProgress) -> None:
        self.bundles, self.settings, self.on_progress = bundles, settings, on_progress
        self.measurements: list[list[Measurement]] = [[] for _ in bundles]
        self.wholes: list[list[Whole]] = [[] for _ in bundles]
        self.refusals: list[list[Refusal]] = [[] for _ in bundles]
        self.phone: dict[str, str] | None = None
        listed = settings.components or bundles[0].family.files
        self.components = [c for c in listed if settings.components or c in bundles[0].manifest.components]
        self.done, self.tasks = 0, len(settings.backends) * (len(self.components) + 1)

    def benched(self, i: int) -> Benched:
        """Return what was measured of bundle `i`."""
        bundle = self.bundles[i]
        results = tuple(self.measurements[i]), tuple(self.wholes[i]), tuple(self.refusals[i])
        recipe = bundle.manifest.configuration.recipe.name
        return Benched(str(bundle.folder), bundle.model_hash, recipe, *results)

    def measure(self, backend: Backend) -> None:
        if backend.connect:
            self._by_a_device(backend)
            return
        self._report(f"{backend.name}: setting up")
        engine = self._engine(backend)
        for component in self.components:
            if self._measured(component, engine):
                self.done += 1
                continue
            report = self._reporter(f"{component} on {backend.name}")

            def in_turn(
                parts: list[Bundle], part: str = component, report: Report = report
            ) -> list[Measurement]:
                return measure(parts, part, engine, self.settings.effort, report)

            self._keep(component, backend, in_turn)
        self._whole(engine)

    def _engine(self, backend: Backend) -> Engine:
        wanted = replace(self.settings.conditions, isolation="process", seconds=SECONDS)
        return Engine(backend, backend.prepare(wanted))

    def _measured(self, component: str, engine: Engine) -> bool:
        """Whether a file for the CPU has been measured there for another backend."""
        there = {(m.component, m.backend) for m in self.measurements[0]}
        part = self.bundles[0].manifest.components.get(component)
        return part is not None and (component, engine.on(part.runs_on).backend.name) in there

    def _by_a_device(self, backend: Backend) -> None:
        """Let a phone, say, measure each file by itself."""
        assert backend.connect is not None, "it was asked for"
        engine, effort = Engine(backend, self.settings.conditions), self.settings.effort
        with backend.connect(self.settings.options[backend.name], self._reporter("phone")) as device:
            self.phone = device.description
            for component in self.components:
                report = self._reporter(f"{component} on the phone")

                def there(
                    parts: list[Bundle], part: str = component, report: Report = report
                ) -> list[Measurement]:
                    measurements = []
                    for path, runs_on in [(b.path(part), b.component(part).runs_on) for b in parts]:
                        measured = device.measure(path, runs_on, engine.precision, effort, report)
                        measurements.append(measurement(part, backend, path, measured))
                    return measurements

                self._keep(component, backend, there)
        self._whole(engine)

    def _whole(self, engine: Engine) -> None:
        name = engine.backend.name
        for i, bundle in enumerate(self.bundles):
            drawn, refused = None, any(r.backend == name for r in self.refusals[i])
            wanted = self.settings.draw and not self.settings.components
            if wanted and not refused and can_draw(bundle, engine):
                self._report(f"{name}: drawing in {self.settings.draw} steps")
                drawn = draw(bundle, engine, self.settings.draw, self.settings.execution)
            computed = whole(bundle, name, self._of(name, i), self.settings.steps, drawn)
            self.wholes[i] += [computed] if computed else []
        self.done += 1

    def _of(self, backend: str, i: int) -> list[Measurement]:
        """Return what was measured of bundle `i` on a backend, its files for the CPU among it."""
        for_cpu = {n for n, part in self.bundles[i].manifest.components.items() if part.runs_on == "cpu"}
        return [m for m in self.measurements[i] if m.backend == backend or m.component in for_cpu]

    def _having(self, component: str) -> list[int]:
        """Return which bundles have the component; all of them where that is none, for the complaint."""
        there = [i for i, b in enumerate(self.bundles) if component in b.manifest.components]
        return there or list(range(len(self.bundles)))

    def _keep(
        self, component: str, backend: Backend, measured: Callable[[list[Bundle]], list[Measurement]]
    ) -> None:
        """Keep what is measured of the bundles together; where one is refused, of each of them alone."""
        together = self._having(component)
        try:
            measurements = measured([self.bundles[i] for i in together])
        except REFUSED as problem:
            if len(together) == 1:
                self._refuse(together[0], component, backend, problem)
            else:
                for i in together:
                    self._keep_one(i, component, backend, measured)
        else:
            for i, measurement in zip(together, measurements, strict=True):
                self.measurements[i].append(measurement)
        self.done += 1

    def _keep_one(
        self, i: int, component: str, backend: Backend, measured: Callable[[list[Bundle]], list[Measurement]]
    ) -> None:
        try:
            self.measurements[i] += measured([self.bundles[i]])
        except REFUSED as problem:
            self._refuse(i, component, backend, problem)

    def _refuse(self, i: int, component: str, backend: Backend, problem: Exception) -> None:
        self.refusals[i].append(Refusal(component, backend.name, str(problem)))

    def _reporter(self, what: str) -> Report:
        return lambda words: self._report(f"{what}: {words}")

    def _report(self, words: str) -> None:
        self.on_progress(words, self.done / self.tasks)


def _versions() -> dict[str, str]:
    versions = {"msd": msd.__version__}
    others = [backend.package[0] for backend in backends().values() if backend.package]
    for package in ("ai-edge-litert", *others, "numpy"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
