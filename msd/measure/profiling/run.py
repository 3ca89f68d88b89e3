"""The steps of `msd kernels`, from files to a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import msd
from msd.errors import DelegateFailed
from msd.files.packages import installed_versions
from msd.gpu.gpu_api import IMPLEMENTATIONS, GpuApi, choose_api
from msd.graph.prediction.device import Device
from msd.measure.profiling.ablation import ablate
from msd.measure.profiling.measure import NetworkFile, measure_network
from msd.measure.profiling.result import KernelReport
from msd.measure.profiling.winograd import measure_tiles
from msd.run.runners.backends.webgpu import BACKEND
from msd.run.runners.machine import this_machine
from msd.run.runners.runner import Conditions, Precision

OnProgress = Callable[[str, float], None]
"""Called with the current activity, in a few words, and the completed fraction of all work."""

OnMeasured = Callable[[KernelReport], None]
"""Called with what has been measured so far, each time that a file is done."""


@dataclass(frozen=True)
class KernelSettings:
    """What to measure: each dispatch; with `ablation` the five optimisations, with `winograd` the tile sizes.

    `gpu_api` is the implementation of WebGPU, `device` the one that the ablation counts for.
    """

    precision: Precision = "fp16"
    gpu_api: GpuApi | None = None
    repeats: int = 20
    ablation: bool = False
    winograd: bool = False
    device: Device = field(default_factory=Device)


def measure_kernels(
    files: Sequence[NetworkFile],
    settings: KernelSettings,
    command: str,
    on_progress: OnProgress,
    on_measured: OnMeasured = lambda report: None,
) -> KernelReport:
    """Return what was measured of each file; `command` is recorded in it.

    Raises BadConfig where the GPU API is not installed or the device's figures are missing, NoDelegate
    without an adapter, and DelegateFailed for a file that WebGPU does not run, for a GPU without timestamp
    queries, and where there is nothing to measure.
    """
    on_progress("looking for a GPU", 0.0)
    conditions = BACKEND.prepare(Conditions(precision=settings.precision, gpu_api=settings.gpu_api))
    report = KernelReport(
        command=command,
        machine=this_machine(),
        versions=_versions(conditions),
        repeats=settings.repeats,
        files=tuple(file.label for file in files),
        size=next((str(file.size) for file in files if file.size), None),
    )
    for done, file in enumerate(files):

        def told(activity: str, file: NetworkFile = file, done: int = done) -> None:
            on_progress(f"{file.component}: {activity}", done / len(files))

        measured = _measured(report, file, conditions, settings, told)
        if measured != report:
            on_measured(measured)
        report = measured
    if settings.winograd and not report.winograd:
        names = ", ".join(file.component for file in files)
        raise DelegateFailed(f"there is no 3x3 convolution without stride in {names}")
    return report


def _measured(
    report: KernelReport,
    file: NetworkFile,
    conditions: Conditions,
    settings: KernelSettings,
    told: Callable[[str], None],
) -> KernelReport:
    if settings.ablation:
        made = ablate(file, conditions, settings.repeats, settings.device, told)
        report = replace(report, ablations=(*report.ablations, made))
    if settings.winograd:
        tiles = measure_tiles(file, conditions, settings.repeats, told)
        report = replace(report, winograd=(*report.winograd, *filter(None, [tiles])))
    if not settings.ablation and not settings.winograd:
        costs = measure_network(file, conditions, settings.repeats, told)
        report = replace(report, networks=(*report.networks, costs))
    return report


def _versions(conditions: Conditions) -> dict[str, str]:
    package = IMPLEMENTATIONS[choose_api(conditions.gpu_api)].package
    return {"msd": msd.__version__, **installed_versions(package, "numpy")}
