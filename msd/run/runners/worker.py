"""The child process: it loads one model, on the GPU delegate or on the CPU, and runs it on request.

The delegate may crash or hang this process; `msd.run.runners.child` is the parent's side. The native
libraries print to standard error, which the parent captures as the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from msd.files.scratch import scratch_folder
from msd.gpu.gpu_api import GpuApi
from msd.gpu.peaks import Peaks
from msd.graph import tflite
from msd.graph.ir.weights import Array
from msd.run.runners.interpreter import LITERT, Interpreter, file_to_load
from msd.run.runners.peak_memory import peak_rss
from msd.run.runners.program_facts import Opening, ProgramFacts
from msd.run.runners.runner import Placement, Precision

if TYPE_CHECKING:
    from msd.run.runners.webgpu_model import WebGpuModel


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

    These are fields of `msd.gpu.fuse.Switches`. `api`: the implementation of WebGPU.
    """

    path: Path
    precision: Precision
    without: tuple[str, ...] = ()
    api: GpuApi | None = None


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
Request = Load | RunModel | TimeModel | MeasurePeaks
Reply = Done | Refused


class LoadedModel(Protocol):
    """A loaded model."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name."""
        ...


class Compiled:
    """A model compiled by LiteRT as `options` say, with buffers for one signature."""

    def __init__(self, path: Path, options: Any, signature: str | None) -> None:
        from ai_edge_litert.compiled_model import CompiledModel

        self.model = CompiledModel.from_file(str(path), options=options)
        unnamed = signature is None
        self.signature = self.model.get_signature_by_index(0)["key"] if unnamed else signature

    @cached_property
    def buffers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The buffers of inputs and of outputs; on the CPU, working memory is allocated with them."""
        inputs = {name: self._input(name) for name in self._details("input")}
        return inputs, {name: self._output(name) for name in self._details("output")}

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        sources, results = self.buffers
        for name, value in inputs.items():
            sources[name].write(value)
        self.model.run_by_name(self.signature, sources, results)
        details = self._details("output").items()
        return {name: self._read(results[name], detail) for name, detail in details}

    def _details(self, side: str) -> dict[str, Any]:
        details: dict[str, Any] = getattr(self.model, f"get_{side}_tensor_details")(self.signature)
        return details

    def _input(self, name: str) -> Any:
        return self.model.create_input_buffer_by_name(self.signature, name)

    def _output(self, name: str) -> Any:
        return self.model.create_output_buffer_by_name(self.signature, name)

    def _read(self, buffer: Any, detail: Mapping[str, Any]) -> Array:
        shape = tuple(detail["shape"])
        values = buffer.read(int(np.prod(shape, dtype=np.int64)), np.dtype(detail["dtype"]))
        return np.asarray(values).reshape(shape)


def compile_for_gpu(request: LoadOnGpu) -> Compiled:
    """Return the model as LiteRT's GPU accelerator compiles it."""
    from ai_edge_litert.compiled_model import GpuOptions, HardwareAccelerator, Options

    accelerators = HardwareAccelerator.GPU
    if request.cpu_too:
        accelerators |= HardwareAccelerator.CPU
    gpu = GpuOptions(enforce_f32=request.precision == "fp32")
    compiled = Compiled(request.path, Options(accelerators, gpu_options=gpu), request.signature)
    assert compiled.buffers, "allocated now, so that a refusal of the GPU is one to load"
    return compiled


def compile_for_cpu(request: CompileForCpu) -> Compiled:
    """Return the model as XNNPACK runs it: with the interpreter's numbers, in less memory.

    XNNPACK packs each weight into a file while it loads, and the model maps that file: neither the original
    weights nor second copies of packed ones stay in memory. Working memory is allocated in the first run.
    With float weights the file would be four times as large as the model, so there is none.
    """
    from ai_edge_litert.compiled_model import CpuOptions, HardwareAccelerator, Options

    with scratch_folder() as folder:
        packed = "" if request.float_weights else f"{folder}/weights"
        cpu = CpuOptions(num_threads=request.threads, xnnpack_weight_cache_path=packed)
        options = Options(HardwareAccelerator.CPU, cpu_options=cpu)
        with file_to_load(tflite.read(request.path), request.path, request.float_weights) as file:
            return Compiled(file, options, request.signature)


class Models:
    """The loaded model, if any, which answers the parent's requests."""

    def __init__(self) -> None:
        self.runner: LoadedModel | None = None

    def answer(self, request: Request) -> Done:
        """Load or run the model; raises the library's errors."""
        if isinstance(request, RunModel):
            assert self.runner is not None, "the parent loads before it runs"
            start = perf_counter()
            outputs = self.runner.run(request.inputs)
            return Done(perf_counter() - start, outputs, peak_rss())
        if isinstance(request, TimeModel):
            start = perf_counter()
            times = _on_webgpu(self.runner).time(request.inputs, request.repeats, request.each)
            return Done(perf_counter() - start, {}, peak_rss(), times=times)
        if isinstance(request, MeasurePeaks):
            start = perf_counter()
            peaks = _on_webgpu(self.runner).peaks()
            return Done(perf_counter() - start, {}, peak_rss(), peaks=peaks)
        before, self.runner, seconds = _load(request)
        names = ("placement", "program", "opening")
        placed, program, opening = (getattr(self.runner, name, None) for name in names)
        return Done(seconds, {}, peak_rss(), before, placed=placed, program=program, opening=opening)


def serve(connection: Connection, answer: Callable[[Any], Done]) -> None:
    """Answer requests until the other end hangs up."""
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        reply: Reply
        try:
            reply = answer(request)
        except Exception as problem:  # the parent reports every error
            reply = Refused(str(problem))
        connection.send(reply)


def _load(request: Load) -> tuple[int, LoadedModel, float]:
    """Return the peak memory before, the model, and the seconds that the library took to load it."""
    if isinstance(request, LoadOnWebGpu):
        return _load_on_webgpu(request)
    if not isinstance(request, LoadOnCpu) or request.library == LITERT:
        from msd.run.runners.verbosity import log_partitions

        log_partitions()
    before, start = peak_rss(), perf_counter()
    if isinstance(request, LoadOnGpu):
        return before, compile_for_gpu(request), perf_counter() - start
    if isinstance(request, CompileForCpu):
        return before, compile_for_cpu(request), perf_counter() - start
    loaded = Interpreter(
        request.path,
        threads=request.threads,
        float_weights=request.float_weights,
        library=request.library,
    )
    return before, loaded, loaded.load_seconds


def _load_on_webgpu(request: LoadOnWebGpu) -> tuple[int, LoadedModel, float]:
    from msd.run.runners.webgpu_model import WebGpuModel

    before, start = peak_rss(), perf_counter()
    loaded = WebGpuModel(request.path, request.precision, request.without, request.api)
    return before, loaded, perf_counter() - start


def _on_webgpu(runner: LoadedModel | None) -> WebGpuModel:
    from msd.run.runners.webgpu_model import WebGpuModel

    assert isinstance(runner, WebGpuModel), "the parent asks only what it loaded on WebGPU"
    return runner


def main(handle: int) -> None:
    """Serve the parent over the inherited socket `handle`."""
    serve(Connection(handle), Models().answer)
    # The drivers' own clean-up has nothing left to save, and it can crash.
    os._exit(0)
