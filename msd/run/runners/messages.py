"""What a parent and its child process, `msd.run.runners.worker`, say to each other.

Nothing here loads more than the standard library: a process that starts another one imports little first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msd.run.runners.program_facts import Opening, ProgramFacts

if TYPE_CHECKING:
    from msd.gpu.gpu_api import GpuApi
    from msd.gpu.peaks import Peaks
    from msd.graph.ir.weights import Array
    from msd.run.runners.runner import Placement, Precision

LITERT = "ai_edge_litert"
"""The package with LiteRT's interpreter. One process can load only one such package."""


@dataclass(frozen=True)
class LoadOnGpu:
    """Compile the file for the GPU; with `cpu_too`, operations that the GPU rejects run on the CPU.

    `signature` is the key of the signature to run, None where the file has none.
    """

    path: Path
    precision: Precision
    signature: str | None = None
    cpu_too: bool = False


@dataclass(frozen=True)
class LoadOnCpu:
    """Load the file on the CPU; the fields are arguments of `msd.run.runners.interpreter.Interpreter`."""

    path: Path
    threads: int | None = None
    float_weights: bool = True
    library: str = LITERT


@dataclass(frozen=True)
class CompileForCpu:
    """Load the file on the CPU as LiteRT's compiled model, with its packed weights in a mapped file.

    `threads` and `float_weights` as in LoadOnCpu, `signature` as in LoadOnGpu.
    """

    path: Path
    threads: int
    float_weights: bool
    signature: str | None = None


@dataclass(frozen=True)
class LoadOnWebGpu:
    """Compile the file to kernels of msd's own, without the optimisations in `without`.

    These are fields of `msd.gpu.switches.Switches`. `api`: the implementation of WebGPU.
    """

    path: Path
    precision: Precision
    without: tuple[str, ...] = ()
    api: GpuApi | None = None


@dataclass(frozen=True)
class OpenGpu:
    """Open a device for the files on WebGPU that follow; the fields are those of LoadOnWebGpu."""

    precision: Precision
    api: GpuApi | None = None


@dataclass(frozen=True)
class Unload:
    """Free the loaded model on WebGPU; its device stays open."""


@dataclass(frozen=True)
class RunModel:
    """Run the loaded model on these inputs."""

    inputs: dict[str, Array]


@dataclass(frozen=True)
class TimeModel:
    """Time `repeats` runs of a model on WebGPU: each as a whole, or with `each` every dispatch of it."""

    inputs: dict[str, Array]
    repeats: int
    each: bool = False


@dataclass(frozen=True)
class MeasurePeaks:
    """Measure what the GPU of a model on WebGPU reaches at most."""


@dataclass(frozen=True)
class Done:
    """The reply to a request that succeeded; `outputs` are those of a run.

    `seconds` is the library's time alone, without imports and preparing the file. `peak` is the peak resident
    memory of the process in bytes, `before` its value when the library began to load. `placed`: the placement
    of a loaded file, where it is not in the native log. `program` and `opening`: what a file was compiled to
    on WebGPU, and how. `times`: for each run of TimeModel its seconds, or those of its dispatches.
    `peaks`: what was measured of the GPU.
    """

    seconds: float
    outputs: dict[str, Array]
    peak: int = 0
    before: int = 0
    placed: Placement | None = None
    program: ProgramFacts | None = None
    opening: Opening | None = None
    times: tuple[tuple[float, ...], ...] = ()
    peaks: Peaks | None = None


@dataclass(frozen=True)
class Refused:
    """The reply to a request that failed, in the library's words."""

    words: str


Load = LoadOnGpu | LoadOnCpu | CompileForCpu | LoadOnWebGpu
Request = Load | OpenGpu | Unload | RunModel | TimeModel | MeasurePeaks
Reply = Done | Refused
