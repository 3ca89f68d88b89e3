"""A .tflite file compiled and loaded on a WebGPU device, inside the child process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from msd.files.wording import counted
from msd.gpu.device import OpenDevice
from msd.gpu.open_session import open_session
from msd.gpu.phases import Phases
from msd.gpu.program import Program, ProgramStep
from msd.gpu.switches import Switches
from msd.run.runners.program_facts import DispatchFacts, Opening, ProgramFacts
from msd.run.runners.runner import Placement, Precision, other_precision

if TYPE_CHECKING:
    from msd.gpu.peaks import Peaks
    from msd.graph.ir.weights import Array

DELEGATE = "msd.gpu"


class WebGpuModel:
    """The file's program on the device that `open_device` returns, without some optimisations; raises the
    errors of msd.gpu.

    `without` names fields of `msd.gpu.switches.Switches`; `phases` times the parts of opening it.
    """

    def __init__(
        self,
        path: Path,
        open_device: Callable[[], OpenDevice],
        precision: Precision,
        without: Sequence[str],
        phases: Phases,
    ) -> None:
        switches = Switches(**dict.fromkeys(without, False))
        opened = open_session(path, open_device, switches, phases)
        self._device, self._session = opened.device, opened.session
        program, operations = opened.session.program, opened.operations
        self.opening = Opening(phases.all, opened.remarks)
        self.program = program_facts(program, operations, self._device)
        half, name = self._device.gpu.half, self._device.name
        dispatches = counted(len(program.steps), "dispatch", "dispatches")
        notes = [f"{dispatches}{' on Dawn' * (self._device.api == 'dawn')}"]
        if precision == "fp16" and not half:
            notes.append(other_precision(name, "fp32", "fp16"))
        self.placement = Placement(
            processor=name,
            precision="fp16" if half else "fp32",
            delegate=DELEGATE,
            nodes=operations,
            delegated=operations,
            partitions=1,
            notes=tuple(notes),
        )

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name."""
        return self._session.run(inputs)

    def time(self, inputs: Mapping[str, Array], repeats: int, each: bool) -> tuple[tuple[float, ...], ...]:
        """Return the seconds of each of `repeats` runs, from inputs on the GPU to outputs on the GPU.

        A run is submitted as a whole; with `each`, every dispatch is timed alone, by the GPU's own clock.
        """
        if each:
            return tuple(tuple(self._session.time(inputs)) for _ in range(repeats))
        return tuple((self._whole(inputs),) for _ in range(repeats))

    def peaks(self) -> Peaks:
        """Return what the GPU reaches at most; raises DelegateFailed without timestamp queries."""
        from msd.gpu.peaks import measure_peaks

        return measure_peaks(self._device)

    def close(self) -> None:
        """Free the GPU's memory, and wait until its implementation of WebGPU has done so."""
        self._session.close()
        self._device.settle()

    def _whole(self, inputs: Mapping[str, Array]) -> float:
        self._session.write(inputs)
        self._session.wait()
        start = perf_counter()
        self._session.submit()
        self._session.wait()
        return perf_counter() - start


def program_facts(program: Program, operations: int, device: OpenDevice) -> ProgramFacts:
    """Return what a program of a file of `operations` is made of."""
    return ProgramFacts(
        operations=operations,
        pipelines=len(program.pipelines),
        dispatches=tuple(map(partial(_dispatch_facts, program), program.steps)),
        tensor_bytes=program.tensor_bytes,
        least_tensor_bytes=program.least_arena,
        weight_bytes=program.weight_bytes,
        parameter_bytes=program.buffers[1],
        software=device.software,
        timestamps=device.timestamps,
    )


def _dispatch_facts(program: Program, step: ProgramStep) -> DispatchFacts:
    pipeline = program.pipelines[step.pipeline]
    return DispatchFacts(
        kernel=pipeline.name,
        operation=step.operation,
        groups=step.groups,
        flops=step.flops,
        bytes=step.bytes,
        arithmetic=step.arithmetic,
        matrices="subgroupMatrix" in pipeline.wgsl,
    )
