"""The description of a backend: how it runs or measures files, and its conditions and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from msd.errors import BadConfig
from msd.run.runners.runner import Conditions, Placement, Precision, ProcessMemory, Runner, VulkanAdapter

if TYPE_CHECKING:
    from msd.bundle import RunsOn
    from msd.run.runners.processes import Processes
    from msd.run.runners.timings import Effort, Timings

Report = Callable[[str], None]
"""Called with the current activity, in a few words."""

Condition = Literal["threads", "float_weights", "precision", "gpu_api"]
"""A field of `Conditions` that a backend may support."""

CONDITIONS: frozenset[Condition] = frozenset(get_args(Condition))


@dataclass(frozen=True)
class MeasuredFile:
    """A device's measurement of one file."""

    placement: Placement
    timings: Timings
    memory: ProcessMemory


class MeasuringDevice(Protocol):
    """A device that measures files by itself, on inputs of its own."""

    @property
    def description(self) -> dict[str, str]:
        """The device's properties by name, such as its model."""

    def measure(
        self, path: Path, runs_on: RunsOn, precision: Precision, effort: Effort, report: Report
    ) -> MeasuredFile:
        """Return the measurement of a file that is for the GPU, or for the CPU."""


@dataclass(frozen=True)
class BackendOption:
    """An option of `msd bench` for one backend; `name` is the key of its value.

    `kind`: Path, str, bool (a flag) or float. `needed` describes the value of a required option; None for
    the others.
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

    `open` loads a file to run it; `connect` returns, for the values of `options`, a device that measures
    files by itself. A backend has one of the two, and only the first kind can generate images. `alias`: its
    name in `msd generate` and in the metadata of images. `ahead` starts that many processes for files that
    are not known yet, None where it cannot. `takes`: the conditions that it supports; the others
    have their defaults. `find_adapter` returns the GPU that it runs on; None for one that needs none.
    `package`: the package that it needs, and a module of that. `package_note`: where that can be had.
    `for_cpu` returns the backend for files that are for the CPU; None for this one. `names_itself`: its
    message for a file that it refuses already names it.
    """

    name: str
    alias: str | None = None
    open: Callable[[Path, Conditions], Runner] | None = None
    ahead: Callable[[Conditions, int], Processes | None] | None = None
    connect: Callable[[Mapping[str, Any], Report], AbstractContextManager[MeasuringDevice]] | None = None
    takes: frozenset[Condition] = frozenset()
    find_adapter: Callable[[Conditions], VulkanAdapter] | None = None
    package: tuple[str, str] | None = None
    package_note: str | None = None
    for_cpu: Callable[[], Backend] | None = None
    names_itself: bool = False
    options: tuple[BackendOption, ...] = ()

    @property
    def spelling(self) -> str:
        """Its alias, else its name."""
        return self.alias or self.name

    def on(self, runs_on: RunsOn) -> Backend:
        """Return the backend for a file that is for the GPU or for the CPU; the latter run only there."""
        return self.for_cpu() if runs_on == "cpu" and self.for_cpu else self

    def applicable(self, conditions: Conditions) -> Conditions:
        """Return the conditions, with defaults for those that this backend does not support."""
        ignored = CONDITIONS - self.takes
        return replace(conditions, **{name: getattr(Conditions(), name) for name in ignored})

    def prepare(self, conditions: Conditions) -> Conditions:
        """Return the conditions with the GPU API and the adapter that the backend needs; a search takes long.

        Raises BadConfig for a package that is not installed, NoDelegate without an adapter.
        """
        self.require_package()
        if self.find_adapter is None:
            return conditions
        found = self.find_adapter(conditions)
        return replace(conditions, adapter=found, gpu_api=found.api or conditions.gpu_api)

    def require_package(self) -> None:
        """Raise BadConfig where the package that the backend needs is not installed."""
        if self.package and find_spec(self.package[1]) is None:
            name = self.package[0]
            why = f"; {self.package_note}" if self.package_note else ""
            raise BadConfig(f"the package {name} is not installed; the backend of that name needs it{why}")
