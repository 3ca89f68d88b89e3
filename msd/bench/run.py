"""All that `msd bench` does, from bundles to a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import msd
from msd.bench.android import Phone, PhoneSettings
from msd.bench.measure import Told, measure
from msd.bench.result import Backend, Benched, Benchmark, Measurement, Precision, Refusal, Whole, ratios
from msd.bench.timings import Effort
from msd.bench.trial import Place
from msd.bench.whole import can_draw, draw, whole
from msd.bundle import Bundle
from msd.errors import BadConfig, BadModelFile, DelegateFailed
from msd.runners import adapter
from msd.runners.machine import this_machine
from msd.runtime.execution import Execution

PACKAGES = ("ai-edge-litert", "tflite-runtime", "numpy")

REFUSED = (BadModelFile, DelegateFailed)
"""What says that one file cannot be run, or was lost, in one place."""

OnProgress = Callable[[str, float], None]
"""Told what is being done, in a few words, and which part of it all has been done."""


@dataclass(frozen=True)
class Settings:
    """What to measure: `components` are all where none is named; `draw`: steps of a picture really drawn, and
    `execution` how.

    `threads` and `float_weights` are for the CPU, `precision` is for GPUs, `phone` for the backend "android".
    """

    backends: tuple[Backend, ...] = ("litert-cpu",)
    components: tuple[str, ...] = ()
    steps: int = 20
    draw: int = 2
    precision: Precision = "fp32"
    threads: int | None = None
    float_weights: bool = True
    execution: Execution = "pipelined"
    effort: Effort = field(default_factory=Effort)
    phone: PhoneSettings | None = None


def benchmark(
    bundles: Sequence[Bundle], settings: Settings, command: str, on_progress: OnProgress
) -> Benchmark:
    """Return what was measured of one bundle, or of two in turn; `command` is noted in it.

    A network that a backend refuses or is lost with is among the refusals; the others are measured. Raises
    NoDelegate without an adapter for the GPU, PhoneFailed where a phone cannot be used, BadBundle for a
    component that is missing, BadConfig for a backend that is not installed.
    """
    machine, work = this_machine(), _Work(bundles, settings, on_progress)
    for backend in settings.backends:
        work.measure(backend)
    benched = tuple(map(work.benched, range(len(bundles))))
    compared = ratios(*benched) if len(benched) == 2 else ()
    return Benchmark(command, machine, _versions(), settings.effort, benched, compared, work.phone)


class _Work:
    """Bundles to be measured, and what has been measured of each."""

    def __init__(self, bundles: Sequence[Bundle], settings: Settings, on_progress: OnProgress) -> None:
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
        found = tuple(self.measurements[i]), tuple(self.wholes[i]), tuple(self.refusals[i])
        recipe = bundle.manifest.configuration.recipe.name
        return Benched(str(bundle.folder), bundle.model_hash, recipe, *found)

    def measure(self, backend: Backend) -> None:
        if backend == "android":
            self._on_phone()
            return
        self._told(f"{backend}: setting up")
        place = self._place(backend)
        for component in self.components:
            if self._measured(component, place):
                self.done += 1
                continue
            told = self._teller(f"{component} on {backend}")

            def in_turn(parts: list[Bundle], part: str = component, told: Told = told) -> list[Measurement]:
                return measure(parts, part, place, self.settings.effort, told)

            self._keep(component, backend, in_turn)
        self._whole(place)

    def _measured(self, component: str, place: Place) -> bool:
        """Whether a file for the CPU has been measured there for another backend."""
        there = {(m.component, m.backend) for m in self.measurements[0]}
        parts = self.bundles[0].manifest.components
        return component in parts and (component, place.of(self.bundles[0], component).backend) in there

    def _on_phone(self) -> None:
        assert self.settings.phone is not None, "the command asks for what a phone needs"
        place = Place("android", self.settings.precision)
        with Phone(self.settings.phone, self._teller("phone")) as phone:
            self.phone = phone.description
            for component in self.components:
                told = self._teller(f"{component} on the phone")

                def there(parts: list[Bundle], part: str = component, told: Told = told) -> list[Measurement]:
                    effort, precision = self.settings.effort, place.precision
                    return [phone.measure(b, part, precision, effort, told) for b in parts]

                self._keep(component, "android", there)
        self._whole(place)

    def _whole(self, place: Place) -> None:
        for i, bundle in enumerate(self.bundles):
            drawn, refused = None, any(r.backend == place.backend for r in self.refusals[i])
            if (
                self.settings.draw
                and not self.settings.components
                and not refused
                and can_draw(bundle, place)
            ):
                self._told(f"{place.backend}: drawing in {self.settings.draw} steps")
                drawn = draw(bundle, place, self.settings.draw, self.settings.execution)
            found = whole(bundle, place, self._of(place.backend, i), self.settings.steps, drawn)
            self.wholes[i] += [found] if found else []
        self.done += 1

    def _of(self, backend: Backend, i: int) -> list[Measurement]:
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
            found = measured([self.bundles[i] for i in together])
        except REFUSED as problem:
            if len(together) == 1:
                self._refuse(together[0], component, backend, problem)
            else:
                for i in together:
                    self._keep_one(i, component, backend, measured)
        else:
            for i, measurement in zip(together, found, strict=True):
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
        self.refusals[i].append(Refusal(component, backend, str(problem)))

    def _place(self, backend: Backend) -> Place:
        s = self.settings
        if backend == "tflite-runtime" and find_spec("tflite_runtime") is None:
            raise BadConfig("the package tflite-runtime is not installed; the backend of that name needs it")
        if backend == "litert-gpu":
            return Place(backend, s.precision, s.threads, s.float_weights, adapter.find())
        return Place(backend, "fp32" if s.float_weights else "dynamic range", s.threads, s.float_weights)

    def _teller(self, what: str) -> Told:
        return lambda words: self._told(f"{what}: {words}")

    def _told(self, words: str) -> None:
        self.on_progress(words, self.done / self.tasks)


def _versions() -> dict[str, str]:
    found = {"msd": msd.__version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
