"""A backend and the conditions under which files run on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from msd.bundle import RunsOn
from msd.errors import BadConfig
from msd.files.wording import listed
from msd.graph import tflite
from msd.graph.ir.float_weights import reads_integer_weights
from msd.run.runners.backend import Backend, Condition
from msd.run.runners.runner import Conditions, Precision, Runner


@dataclass(frozen=True)
class Engine:
    """A backend and the conditions for every file on it."""

    backend: Backend
    conditions: Conditions = field(default_factory=Conditions)

    def on(self, runs_on: RunsOn) -> Engine:
        """Return the engine for a file that is for the GPU or for the CPU; the latter run only there."""
        return replace(self, backend=self.backend.on(runs_on))

    def until(self, stop: Event) -> Engine:
        """Return the engine whose processes end when `stop` is set."""
        return replace(self, conditions=replace(self.conditions, stop=stop))

    @property
    def precision(self) -> Precision:
        """The precision of the GPU's arithmetic; fp32 on a backend without a choice of precision."""
        return self.backend.applicable(self.conditions).precision

    def unused(self, places: Iterable[RunsOn]) -> tuple[str, ...]:
        """Return, as a sentence, the conditions that are not the defaults and that no file at `places` has.

        Empty where all are used.
        """
        known = frozenset[Condition]().union(*(self.backend.on(place).takes for place in places))
        given = {
            "threads": self.conditions.threads and f"threads {self.conditions.threads}",
            "float_weights": "" if self.conditions.float_weights else "dynamic-range arithmetic",
            "precision": "" if self.conditions.precision == "fp32" else "precision fp16",
            "gpu_api": self.conditions.gpu_api and f"the GPU API {self.conditions.gpu_api}",
        }
        unused = [words for name, words in given.items() if words and name not in known]
        return (f"the backend {self.backend.spelling} does not use {listed(unused)}",) if unused else ()

    def idle(self, files: Mapping[Path, RunsOn]) -> tuple[str, ...]:
        """Return, as a sentence, that dynamic-range arithmetic is asked for where no file has integers.

        Empty where a backend for these files does not take it, which `unused` says.
        """
        takers = [path for path, place in files.items() if "float_weights" in self.backend.on(place).takes]
        if self.conditions.float_weights or not takers or any(map(_has_integers, takers)):
            return ()
        return ("dynamic-range arithmetic changes nothing: no network computes with integer weights",)

    def load(self, path: Path) -> Runner:
        """Load a file and return its runner, whose arithmetic is fp32 where the file has no integers.

        Raises BadModelFile, NoDelegate and DelegateFailed, and BadConfig for a backend that only measures.
        """
        if self.backend.open is None:
            raise BadConfig(f"the backend {self.backend.name} only measures networks and cannot run them")
        conditions = self.backend.applicable(self.conditions)
        if not conditions.float_weights and not _has_integers(path):
            conditions = replace(conditions, float_weights=True)
        return self.backend.open(path, conditions)


def _has_integers(path: Path) -> bool:
    return reads_integer_weights(tflite.read(path))
