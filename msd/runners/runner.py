"""A .tflite file that is ready to run, wherever it runs, and how it is to run there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol

from msd.ir.weights import Array
from msd.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from msd.runners.adapter import VulkanAdapter

Precision = Literal["fp32", "fp16"]
"""What a GPU computes in."""

Arithmetic = Literal["fp32", "fp16", "dynamic range"]
"""What was computed in; the last is the CPU's, whose int8 weights meet inputs rounded to 8 bits."""

Isolation = Literal["none", "process", "mapped"]
"""In this process where the backend can; in its own; or there, with packed weights in a mapped file.

The last takes the least memory; the second is what `msd bench` measures.
"""


@dataclass(frozen=True)
class Conditions:
    """How a file runs. A backend is given only those of the first three that it takes.

    `threads` of the CPU: None is one per core. `float_weights`: on the CPU, weights stored in fewer bits are
    brought to float32 and all arithmetic is float32, as on a GPU; without it, TensorFlow Lite rounds the
    inputs of such operations to 8 bits too. `precision`: what a GPU computes in. `seconds` bounds the loading
    and each run of a file in a process of its own (None: the backend's own bound), `memory` that process's
    resident bytes, and `stop`, when set, ends it. `adapter`: the GPU, None for the one that is found.
    """

    threads: int | None = None
    float_weights: bool = True
    precision: Precision = "fp32"
    isolation: Isolation = "none"
    seconds: float | None = None
    memory: int | None = None
    stop: Event | None = None
    adapter: VulkanAdapter | None = None

    @property
    def cores(self) -> int:
        """The number of threads on the CPU."""
        return self.threads or os.cpu_count() or 1

    @property
    def cpu_arithmetic(self) -> Arithmetic:
        """What `Placement.precision` says of the CPU under these conditions."""
        return "fp32" if self.float_weights else "dynamic range"


@dataclass(frozen=True)
class Placement:
    """Where a file ran, and which part of it a delegate took.

    `processor`: "CPU", or the adapter's name. `precision`: "fp32", "fp16", or "dynamic range" of the CPU.
    `threads` are the CPU's. `nodes` are those of the graph that was run, of which the `delegate` took
    `delegated` in `partitions` pieces, as the native log says; None where it does not say. `notes`: what a
    reader should know, a clause each.
    """

    processor: str
    precision: Arithmetic
    threads: int | None = None
    delegate: str | None = None
    nodes: int | None = None
    delegated: int | None = None
    partitions: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProcessMemory:
    """Resident memory of a process in bytes: before the library began to load, and the highest of all.

    None where it is not known. A GPU's own memory is not in it. On a phone `peak` is what benchmark_model
    says of itself.
    """

    before: int | None
    peak: int | None


class Runnable(Protocol):
    """Something that runs on named arrays, as a loaded file does."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name; raises BadModelFile where `inputs` do not fit, and DelegateFailed."""


class Runner(Runnable, Protocol):
    """A loaded .tflite file; a context manager that frees what it holds."""

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
        """The memory of the process that runs it, until now."""

    @property
    def log(self) -> str:
        """What native libraries have printed until now; empty where that is not kept."""

    @property
    def placement(self) -> Placement:
        """Where it runs."""

    def __enter__(self) -> Runner: ...

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...
