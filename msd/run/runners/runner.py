"""The interface of a loaded .tflite file on any backend, and the conditions of its runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from msd.bounds import MOST_THREADS
from msd.errors import BadConfig
from msd.gpu.gpu_api import GpuApi, require_known_api

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array
    from msd.run.runners.processes import Processes
    from msd.tensor_spec import TensorSpec

Precision = Literal["fp32", "fp16"]
"""The precision of a GPU's arithmetic."""

Arithmetic = Literal["fp32", "fp16", "dynamic range"]
"""The arithmetic of a run; "dynamic range" is the CPU's with int8 weights and inputs rounded to 8 bits."""

Isolation = Literal["none", "process", "mapped"]
"""The process of a run: this one where the backend can, one of its own, or that with packed weights mapped.

The last needs the least memory; `msd bench` measures the second.
"""


@dataclass(frozen=True)
class VulkanAdapter:
    """An adapter on which the delegate, or for WebGPU the implementation `api`, has passed the probe.

    `name` and `type` are as Dawn reports them to the delegate ("CPU / Software" for SwiftShader); for WebGPU
    the type is CPU or GPU. `origin` is the driver's origin in words, `half_floats` says whether the adapter
    really computes in float16, `environment` has the variables that a child process needs, and `passed_over`
    a clause for each driver that was tried before it and failed.
    """

    name: str
    type: str
    origin: str
    half_floats: bool
    environment: Mapping[str, str] = field(repr=False, hash=False)
    api: GpuApi | None = None
    passed_over: tuple[str, ...] = ()

    @property
    def software(self) -> bool:
        """Whether the adapter is software on a CPU, not a GPU."""
        return self.type.startswith("CPU")


@dataclass(frozen=True)
class Conditions:
    """The conditions under which a file runs; a backend may ignore some of the first four.

    `threads` of the CPU: None means one per core. `float_weights`: on the CPU, weights stored in fewer bits
    are converted to float32 and all arithmetic is float32, as on a GPU; without it, TensorFlow Lite rounds
    the inputs of such operations to 8 bits too. `precision` of a GPU's arithmetic. `gpu_api`: the
    implementation of WebGPU, None for the first installed one that a driver works with. For a file in a
    process of its own, `seconds` bounds loading and each run (None: the backend's default), `memory` bounds
    the resident bytes, and setting `stop` ends the process. `adapter`: the GPU, None for the first that
    works. `processes`: those that were started ahead, which files on WebGPU take first. Raises BadConfig for
    another precision or GPU API, and for more threads than the libraries start without crashing.
    """

    threads: int | None = None
    float_weights: bool = True
    precision: Precision = "fp32"
    gpu_api: GpuApi | None = None
    isolation: Isolation = "none"
    seconds: float | None = None
    memory: int | None = None
    stop: Event | None = None
    adapter: VulkanAdapter | None = None
    processes: Processes | None = None

    def __post_init__(self) -> None:
        require_known_api(self.gpu_api)
        if self.precision not in get_args(Precision):
            choices = " or ".join(get_args(Precision))
            raise BadConfig(f"the precision is {self.precision!r}; it should be {choices}")
        if self.threads is not None and not 1 <= self.threads <= MOST_THREADS:
            raise BadConfig(f"{self.threads} threads are impossible; 1 to {MOST_THREADS} are supported")

    @property
    def cores(self) -> int:
        """The number of threads on the CPU."""
        return self.threads or os.cpu_count() or 1

    @property
    def cpu_arithmetic(self) -> Arithmetic:
        """The `Placement.precision` of the CPU under these conditions."""
        return "fp32" if self.float_weights else "dynamic range"


@dataclass(frozen=True)
class Placement:
    """The processor that ran a file, and the part of it that a delegate accepted.

    `processor`: "CPU", or the adapter's name. `threads` are the CPU's. `nodes` counts the nodes of the graph
    that ran, of which the `delegate` accepted `delegated` in `partitions` pieces, by the native log; None
    where the log does not tell. `notes`: remarks for readers, a clause each.
    """

    processor: str
    precision: Arithmetic
    threads: int | None = None
    delegate: str | None = None
    nodes: int | None = None
    delegated: int | None = None
    partitions: int | None = None
    notes: tuple[str, ...] = ()


def other_precision(processor: str, computed: str, asked: str) -> str:
    """Return a clause that says that a processor computes in another precision than asked for."""
    return f"{processor} computes in {computed} instead of {asked}"


@dataclass(frozen=True)
class ProcessMemory:
    """Resident memory of a process in bytes: before the library began to load, and at its peak.

    None where it is unknown. A GPU's own memory does not count. On a phone, `peak` is benchmark_model's own
    figure.
    """

    before: int | None
    peak: int | None


class Runnable(Protocol):
    """Anything that runs on named arrays, as a loaded file does."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name; raises BadModelFile where `inputs` do not fit, and DelegateFailed."""


class Runner(Runnable, Protocol):
    """A loaded .tflite file; a context manager that frees its memory."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def inputs(self) -> Mapping[str, TensorSpec]:
        """The inputs by name: of its first signature, or the names of its tensors where it has none."""

    @property
    def outputs(self) -> Mapping[str, TensorSpec]:
        """The outputs by name."""

    @property
    def load_seconds(self) -> float:
        """The seconds that the library took to load the file."""

    @property
    def run_seconds(self) -> Sequence[float]:
        """The seconds of each run until now, from inputs in memory to outputs in memory."""

    @property
    def memory(self) -> ProcessMemory:
        """The memory, until now, of the process that runs the file."""

    @property
    def log(self) -> str:
        """The native libraries' output until now; empty where it is not captured."""

    @property
    def placement(self) -> Placement:
        """The placement of the file."""

    def __enter__(self) -> Runner: ...

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...
