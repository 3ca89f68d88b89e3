"""What each optimisation of "Speed Is All You Need" saves: the paper's Table 1 for this machine's GPU.

arXiv 2304.11267, section 4. The baseline has what every engine has: convolutions and products as tiled matrix
products with integer weights, bias, activation, sum and upsampling in the same dispatch, one arena for all
activations, fp16 and matrix units where the GPU has them. Each row adds to the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from msd.gpu.compile import compile_file
from msd.gpu.gpu import Gpu
from msd.gpu.switches import Switches
from msd.graph.prediction.device import Device
from msd.graph.prediction.roofline import Roofline
from msd.measure.profiling.measure import WARMUPS, NetworkFile
from msd.measure.profiling.result import Ablation, AblationRow, Counted
from msd.run.runners.backend import Report
from msd.run.runners.backends.webgpu import WebGpuProcess
from msd.run.runners.program_facts import ProgramFacts
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions
from msd.run.runners.timings import Effort, interleaved

ADDED: dict[str, tuple[str, ...]] = {
    "baseline": (),
    "+ partially fused softmax": ("softmax",),
    "+ group norm and GELU kernels": ("norms", "gelu"),
    "+ FlashAttention": ("flash",),
    "+ Winograd": ("winograd",),
}
"""The rows of Table 1, and the switches of msd.gpu.switches that each adds."""

WITHOUT_SHORT_SUMS = "all, sums in float32 alone"
"""A further row: what the last one takes without the short sums in float16 that all rows before have."""


ENOUGH_WORKGROUPS = 16
"""How many workgroups fill a phone's GPU: an assumption, as it has about a dozen processors."""


def ablate(
    file: NetworkFile, conditions: Conditions, repeats: int, device: Device, report: Report
) -> Ablation:
    """Return a row for each stage; runs of all stages take turns. `device` is the one to count for.

    Every stage is on the GPU at once. Raises BadConfig for a device without figures, and the errors of
    WebGpuProcess.
    """
    roofline = Roofline.of(device)
    with ExitStack() as stack:
        loaded: dict[str, WebGpuProcess] = {}
        for name, without in stages().items():
            report(f"compiling {name}")
            loaded[name] = stack.enter_context(WebGpuProcess(file.path, conditions, without))
        runs = dict(zip(loaded, _in_turn(list(loaded.values()), repeats, report), strict=True))
        measured = {name: process.compiled for name, process in loaded.items()}
        place = loaded[next(iter(loaded))].placement
    report(f"counting for {device.name}")
    rows = (
        _row(name, without, runs[name], measured[name], count(file, without, device, roofline))
        for name, without in stages().items()
    )
    return Ablation(
        component=file.component,
        adapter=place.processor,
        software=next(iter(measured.values())).software,
        precision=place.precision,
        device=device.name,
        rows=tuple(rows),
    )


def stages() -> dict[str, tuple[str, ...]]:
    """Return each row's name and the switches that are off in it."""
    off = [switch for switches in ADDED.values() for switch in switches]
    rows: dict[str, tuple[str, ...]] = {}
    for name, switches in ADDED.items():
        off = [switch for switch in off if switch not in switches]
        rows[name] = tuple(off)
    return rows | {WITHOUT_SHORT_SUMS: ("short_sums",)}


def count(file: NetworkFile, without: Sequence[str], device: Device, roofline: Roofline) -> Counted:
    """Return what a file's program for a device in fp16 moves and computes, and its least time there."""
    program = compile_file(file.path, gpu_of(device), Switches(**dict.fromkeys(without, False)))
    return Counted(
        dispatches=len(program.steps),
        tensor_bytes=program.tensor_bytes,
        weight_bytes=program.weight_bytes,
        bytes=sum(step.bytes for step in program.steps),
        flops=sum(step.flops for step in program.steps),
        arithmetic=sum(step.arithmetic for step in program.steps),
        seconds=roofline.seconds(program.steps),
        float_seconds=roofline.seconds(program.steps, half=False),
    )


def gpu_of(device: Device) -> Gpu:
    """Return a described device as WebGPU would show it: fp16, and buffers as large as its allocations."""
    largest = device.allocation_bytes or Gpu.buffer_bytes
    return Gpu(half=True, buffer_bytes=largest, binding_bytes=largest, enough_workgroups=ENOUGH_WORKGROUPS)


def _in_turn(processes: Sequence[WebGpuProcess], repeats: int, report: Report) -> list[list[float]]:
    inputs = random_inputs(processes[0].inputs.values())

    def once(process: WebGpuProcess) -> float:
        return process.time(inputs, 1)[0][0]

    runs = [partial(once, process) for process in processes]
    interleaved(runs, Effort(WARMUPS, 0, 0.0, float("inf")), lambda turn, last: report(f"warm-up {turn}"))
    effort = Effort(repeats, 0, 0.0, float("inf"))
    return interleaved(runs, effort, lambda turn, last: report(f"turn {turn} of {repeats}"))


def _row(
    name: str, without: Sequence[str], runs: Sequence[float], program: ProgramFacts, counted: Counted
) -> AblationRow:
    return AblationRow(
        name=name,
        without=tuple(without),
        run_seconds=tuple(runs),
        dispatches=len(program.dispatches),
        tensor_bytes=program.tensor_bytes,
        weight_bytes=program.weight_bytes,
        bytes=sum(each.bytes for each in program.dispatches),
        counted=counted,
    )
