"""Networks on this machine's GPU: what each dispatch of them takes, and a run of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from msd.bundle import ImageSize
from msd.errors import DelegateFailed
from msd.files.wording import counted
from msd.gpu.peaks import Peaks
from msd.measure.profiling.result import DispatchCost, NetworkCosts
from msd.run.runners.backend import Report
from msd.run.runners.backends.webgpu import WebGpuProcess
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions

WARMUPS = 2


@dataclass(frozen=True)
class NetworkFile:
    """A .tflite file, and the name under which a result has it.

    `original`: the file that its user knows, where `path` has one size of it. `size`: that of the images of
    its bundle.
    """

    component: str
    path: Path
    original: Path | None = None
    size: ImageSize | None = None

    @property
    def label(self) -> str:
        """The path that its user knows."""
        return str(self.original or self.path)


def measure_network(file: NetworkFile, conditions: Conditions, repeats: int, report: Report) -> NetworkCosts:
    """Return what the dispatches of a file cost on seeded random inputs; medians of `repeats` runs.

    Raises DelegateFailed for a GPU without timestamp queries, and the errors of WebGpuProcess.
    """
    report(f"compiling {file.label}")
    with WebGpuProcess(file.path, conditions) as process:
        require_timestamps(process)
        inputs = random_inputs(process.inputs.values())
        report("first run")
        process.run(inputs)
        process.time(inputs, WARMUPS)
        report(counted(repeats, "run"))
        runs = process.time(inputs, repeats)
        report(f"{counted(repeats, 'run')}, each dispatch timed")
        seconds = _medians(process.time(inputs, repeats, each=True))
        report("the GPU's peaks")
        return _costs(file, process, runs, seconds, process.peaks())


def require_timestamps(process: WebGpuProcess) -> None:
    """Raise DelegateFailed where the GPU cannot time a dispatch."""
    if not process.compiled.timestamps:
        name = process.placement.processor
        raise DelegateFailed(f"{name} has no timestamp queries, so its dispatches cannot be timed")


def _medians(runs: Sequence[Sequence[float]]) -> list[float]:
    return [median(each) for each in zip(*runs, strict=True)]


def _costs(
    file: NetworkFile,
    process: WebGpuProcess,
    runs: Sequence[Sequence[float]],
    seconds: Sequence[float],
    peaks: Peaks,
) -> NetworkCosts:
    program, place = process.compiled, process.placement
    dispatches = (
        DispatchCost(
            kernel=each.kernel,
            operation=each.operation,
            groups=each.groups,
            seconds=taken,
            flops=each.flops,
            bytes=each.bytes,
            arithmetic=each.arithmetic,
            matrices=each.matrices,
            least_seconds=peaks.least_seconds(each.bytes, each.arithmetic, each.matrices),
        )
        for each, taken in zip(program.dispatches, seconds, strict=True)
    )
    return NetworkCosts(
        component=file.component,
        file=file.label,
        adapter=place.processor,
        software=program.software,
        precision=place.precision,
        operations=program.operations,
        pipelines=program.pipelines,
        dispatches=tuple(dispatches),
        run_seconds=tuple(run for (run,) in runs),
        load_seconds=process.load_seconds,
        first_seconds=process.run_seconds[0],
        tensor_bytes=program.tensor_bytes,
        least_tensor_bytes=program.least_tensor_bytes,
        weight_bytes=program.weight_bytes,
        parameter_bytes=program.parameter_bytes,
        peaks=peaks,
        notes=tuple(note for note in place.notes if note != f"{len(seconds)} dispatches"),
    )
