"""The result of `msd kernels`, as an object with one JSON form."""

from __future__ import annotations

from dataclasses import dataclass

from msd.files import schema
from msd.gpu.peaks import Peaks
from msd.run.runners.machine import Machine
from msd.run.runners.runner import Arithmetic

FORMAT = 1


@dataclass(frozen=True)
class DispatchCost:
    """One dispatch: `seconds` is the median of its runs by the GPU's own clock.

    `flops` counts the additions and multiplications of the operation that it computes, `arithmetic` those of
    the kernel, `bytes` what it reads and writes, each value once. `matrices`: matrix units multiply.
    `least_seconds`: the longer of the times of its bytes and its arithmetic at the GPU's measured peaks.
    """

    kernel: str
    operation: str
    groups: tuple[int, ...]
    seconds: float
    flops: int
    bytes: int
    arithmetic: int
    matrices: bool
    least_seconds: float


@dataclass(frozen=True)
class NetworkCosts:
    """One network of `operations` operations, and the dispatches that it was compiled to, in order.

    `run_seconds` are those of whole runs, submitted together and without timestamps, from inputs to outputs
    on the GPU. `load_seconds` lead from the file to a program on the GPU, `first_seconds` from inputs to the
    first outputs, both in the process that runs it. `tensor_bytes` hold the activations, of which any plan
    needs `least_tensor_bytes`. `precision` is that of the arithmetic; `peaks` were
    measured in the same process; notes are a clause each.
    """

    component: str
    file: str
    adapter: str
    software: bool
    precision: Arithmetic
    operations: int
    pipelines: int
    dispatches: tuple[DispatchCost, ...]
    run_seconds: tuple[float, ...]
    load_seconds: float
    first_seconds: float
    tensor_bytes: int
    least_tensor_bytes: int
    weight_bytes: int
    parameter_bytes: int
    peaks: Peaks
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counted:
    """A program for another device, which did not run: what its dispatches move and compute.

    `flops` are the operations', `arithmetic` what the kernels compute: less with Winograd. `seconds` and
    `float_seconds` are the sums of the dispatches' least times on that device's roofline, by the peak of its
    arithmetic in float16 and in float32.
    """

    dispatches: int
    tensor_bytes: int
    weight_bytes: int
    bytes: int
    flops: int
    arithmetic: int
    seconds: float
    float_seconds: float


@dataclass(frozen=True)
class AblationRow:
    """One network without the optimisations in `without`.

    `run_seconds` are those of whole runs that took turns with the other rows'; what follows is of the program
    that ran.
    """

    name: str
    without: tuple[str, ...]
    run_seconds: tuple[float, ...]
    dispatches: int
    tensor_bytes: int
    weight_bytes: int
    bytes: int
    counted: Counted


@dataclass(frozen=True)
class Ablation:
    """Rows of one network from the baseline to all optimisations, counted for `device` in fp16."""

    component: str
    adapter: str
    software: bool
    precision: Arithmetic
    device: str
    rows: tuple[AblationRow, ...]


@dataclass(frozen=True)
class TileCost:
    """A tile size's median `seconds` for one shape, and the decibels of its results to exact ones.

    `tile` 0 is the convolution without Winograd.
    """

    tile: int
    seconds: float
    decibels: float


@dataclass(frozen=True)
class ShapeCosts:
    """A 3x3 convolution that a network has `count` times; `chosen` is the tile that the heuristic takes."""

    height: int
    width: int
    inputs: int
    outputs: int
    count: int
    chosen: int
    tiles: tuple[TileCost, ...]


@dataclass(frozen=True)
class WinogradCosts:
    """All 3x3 convolutions of one network without stride, in each tile size."""

    component: str
    adapter: str
    software: bool
    precision: Arithmetic
    shapes: tuple[ShapeCosts, ...]


@dataclass(frozen=True)
class KernelReport:
    """One run of `msd kernels`; `repeats` is the number of runs behind each median.

    `files` are those to measure, as their user knows them, `size` that of their images as WIDTHxHEIGHT; None
    for a file that belongs to no bundle.
    """

    command: str
    machine: Machine
    versions: dict[str, str]
    repeats: int
    networks: tuple[NetworkCosts, ...] = ()
    ablations: tuple[Ablation, ...] = ()
    winograd: tuple[WinogradCosts, ...] = ()
    files: tuple[str, ...] = ()
    size: str | None = None
    format: int = FORMAT


def dump_kernel_report(report: KernelReport) -> str:
    """Return the report as JSON, ending in a newline."""
    return schema.dump(report)
