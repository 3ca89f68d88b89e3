"""msd's own kernels on WebGPU, in a process of its own because a GPU's driver may crash or hang."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING

from msd.errors import BadConfig, DelegateFailed, MsdError, NoDelegate
from msd.gpu.gpu_api import GpuApi, choose_api, usable_apis
from msd.run.runners import adapter
from msd.run.runners.backend import Backend
from msd.run.runners.checks import check
from msd.run.runners.child import Bounds, Child, ChildLost
from msd.run.runners.driver_cache import DriverCache
from msd.run.runners.messages import LoadOnWebGpu, MeasurePeaks, OpenGpu, TimeModel
from msd.run.runners.process_runner import ProcessRunner
from msd.run.runners.processes import Processes
from msd.run.runners.program_facts import ProgramFacts
from msd.run.runners.runner import Conditions, Placement, VulkanAdapter

if TYPE_CHECKING:
    from msd.gpu.peaks import Peaks
    from msd.graph.ir.weights import Array

SECONDS = 600.0
"""The most seconds that compiling, or one run, may take."""


class WebGpuProcess(ProcessRunner):
    """A file compiled by msd.gpu, without the optimisations in `without` (msd.gpu.switches.Switches).

    Raises BadModelFile for a file that is no model, BadConfig where the implementation of WebGPU is not
    installed, NoDelegate without an adapter, and DelegateFailed for an operator without a kernel, for a GPU
    that is too small, or when the process dies or exceeds its bounds.
    """

    def __init__(self, path: Path, conditions: Conditions, without: tuple[str, ...] = ()) -> None:
        self.precision, self.adapter = conditions.precision, conditions.adapter or find_adapter(conditions)
        api = choose_api(conditions.gpu_api or self.adapter.api)
        bounds = Bounds.of(conditions.seconds or SECONDS, conditions.memory, conditions.stop)
        load = LoadOnWebGpu(path, conditions.precision, without, api)
        self._processes = conditions.processes
        super().__init__(path, load, bounds, self.adapter.environment)

    def start(self, environment: Mapping[str, str], bounds: Bounds) -> Child:
        """Return a process that was started ahead, where there is one, else one that is just started."""
        network = self.path.stem
        ahead = self._processes
        if ahead and ahead.environment == environment and (child := ahead.take(bounds, network)):
            return child
        cache = DriverCache.claimed(network)
        cache.note(network)
        return Child(environment, bounds, cache=cache)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._processes:
            self._processes.give(self._child)
        else:
            super().__exit__(kind, problem, trace)

    @property
    def placement(self) -> Placement:
        """The placement of the file: all of it on the GPU."""
        assert self.placed is not None, "the child tells it when it has loaded the file"
        return self.placed

    @property
    def compiled(self) -> ProgramFacts:
        """What the file was compiled to."""
        assert self.program is not None, "the child tells it when it has loaded the file"
        return self.program

    def time(
        self, inputs: Mapping[str, Array], repeats: int, each: bool = False
    ) -> tuple[tuple[float, ...], ...]:
        """Return the seconds of each run, or with `each` those of the dispatches of each run."""
        check(inputs, self.inputs, self.path)
        return self._ask(TimeModel(dict(inputs), repeats, each)).times

    def peaks(self) -> Peaks:
        """Return what the GPU reaches at most; raises DelegateFailed without timestamp queries."""
        found = self._ask(MeasurePeaks()).peaks
        assert found is not None, "the child measured them"
        return found

    def lost(self, problem: ChildLost) -> MsdError:
        """Return the error for a process that died or exceeded its bounds."""
        return DelegateFailed(f"WebGPU was lost with {self.path}: {problem}")

    def refused(self, why: str, loading: bool) -> MsdError:
        """Return the error for a file that could not be compiled, or not be run."""
        return DelegateFailed(f"WebGPU cannot run {self.path}: {why}")


def find_adapter(conditions: Conditions) -> VulkanAdapter:
    """Return the adapter for the implementation of WebGPU that is asked, else for an installed one.

    Raises BadConfig where it is not installed, NoDelegate without an adapter.
    """
    return adapter.find(*usable_apis(conditions.gpu_api))


def processes_ahead(conditions: Conditions, count: int) -> Processes | None:
    """Return `count` processes that open the GPU; None without WebGPU, or where a driver must be installed.

    A driver that was not probed before is probed in a thread meanwhile, for which `adapter.find` waits.
    """
    try:
        apis = usable_apis(conditions.gpu_api)
    except BadConfig:
        return None  # the first file says why
    driver = conditions.adapter or adapter.first_driver(*apis)
    if driver is None:
        return None
    processes = Processes(count, driver.environment)
    processes.open_gpu(OpenGpu(conditions.precision, driver.api or apis[0]))
    if isinstance(driver, adapter.Driver) and not adapter.is_remembered(driver):
        Thread(target=_probe, args=apis).start()
    return processes


def _probe(*apis: GpuApi) -> None:
    with suppress(NoDelegate):  # whoever needs the adapter says why
        adapter.find(*apis)


def cpu() -> Backend:
    """Return the backend for files that are for the CPU."""
    from msd.run.runners.backends import litert_cpu  # loads what starts no process on a GPU

    return litert_cpu.BACKEND


BACKEND = Backend(
    name="webgpu",
    open=WebGpuProcess,
    ahead=processes_ahead,
    takes=frozenset({"precision", "gpu_api"}),
    find_adapter=find_adapter,
    for_cpu=cpu,
)
