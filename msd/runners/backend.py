"""What a backend is: how it runs files, or measures them, and what it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

from msd.bundle import RunsOn
from msd.errors import BadConfig
from msd.runners import adapter
from msd.runners.runner import Conditions, Placement, Precision, ProcessMemory, Runner
from msd.runners.timings import Effort, Timings

Report = Callable[[str], None]
"""Is called with what is being done, in a few words."""

Condition = Literal["threads", "float_weights", "precision"]
"""A field of `Conditions` that a backend may take."""


@dataclass(frozen=True)
class MeasuredFile:
    """What a device found out about one file."""

    placement: Placement
    timings: Timings
    memory: ProcessMemory


class MeasuringDevice(Protocol):
    """Something that measures whole files by itself, and cannot be fed."""

    @property
    def description(self) -> dict[str, str]:
        """What it says of itself."""

    def measure(
        self, path: Path, runs_on: RunsOn, precision: Precision, effort: Effort, report: Report
    ) -> MeasuredFile:
        """Return what was measured of a file that is for the GPU, or for the CPU."""


@dataclass(frozen=True)
class BackendOption:
    """An option of `msd bench` for one backend: `name` is the key under which its value comes.

    `kind`: Path, str, bool (a flag) or float. `needed`: what must be given, where the backend cannot do
    without.
    """

    flag: str
    name: str
    kind: type
    help: str
    default: Any = None
    needed: str | None = None


@dataclass(frozen=True)
class Backend:
    """One way to run or to measure .tflite files.

    `open` loads a file to be run; `connect` gives, for the values of `options`, a device that measures files
    by itself: a backend has one of the two, and only the first can generate images. `alias`: what `msd
    generate` calls it, and pictures' metadata. `takes`: which conditions mean something to it; it is given
    the defaults of the others. `needs_adapter`: it runs on a GPU. `package`: what must be installed for it,
    with the module of it to look for. `for_cpu`: which backend runs files that are for the CPU, None for this
    one. `names_itself`: its sentence for a file that it refuses says who refuses it.
    """

    name: str
    alias: str | None = None
    open: Callable[[Path, Conditions], Runner] | None = None
    connect: Callable[[Mapping[str, Any], Report], AbstractContextManager[MeasuringDevice]] | None = None
    takes: frozenset[Condition] = frozenset()
    needs_adapter: bool = False
    package: tuple[str, str] | None = None
    for_cpu: Backend | None = None
    names_itself: bool = False
    options: tuple[BackendOption, ...] = ()

    @property
    def spelling(self) -> str:
        """Its alias, else its name."""
        return self.alias or self.name

    def on(self, runs_on: RunsOn) -> Backend:
        """Return the backend for a file that is for the GPU, or for the CPU: that never runs elsewhere."""
        return self.for_cpu if runs_on == "cpu" and self.for_cpu else self

    def applicable(self, conditions: Conditions) -> Conditions:
        """Return conditions with the defaults of what this backend does not take."""
        usual = Conditions()
        return replace(
            conditions,
            threads=conditions.threads if "threads" in self.takes else usual.threads,
            float_weights=conditions.float_weights if "float_weights" in self.takes else usual.float_weights,
            precision=conditions.precision if "precision" in self.takes else usual.precision,
        )

    def prepare(self, conditions: Conditions) -> Conditions:
        """Return conditions with the adapter, where it needs one: what takes long once comes before the rest.

        Raises BadConfig for a package that is not installed, NoDelegate without an adapter.
        """
        if self.package and find_spec(self.package[1]) is None:
            name = self.package[0]
            raise BadConfig(f"the package {name} is not installed; the backend of that name needs it")
        return replace(conditions, adapter=adapter.find()) if self.needs_adapter else conditions
