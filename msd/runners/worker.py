"""The child process: it loads one model, on the GPU delegate or on the CPU, and runs it when asked.

The delegate may crash or hang and take this process with it; `msd.runners.child` is the other end.
Everything the native libraries print goes to standard error, which the parent keeps as the log.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from msd import tflite
from msd.ir.weights import Array
from msd.runners.interpreter import LITERT, Interpreter, file_to_load
from msd.runners.peak_memory import peak_rss
from msd.runners.runner import Precision


@dataclass(frozen=True)
class LoadOnGpu:
    """Compile the file for the GPU; with `cpu_too`, what the GPU rejects goes to the CPU.

    `signature` is the key of the one to run, None where the file has none.
    """

    path: Path
    precision: Precision
    signature: str | None = None
    cpu_too: bool = False


@dataclass(frozen=True)
class LoadOnCpu:
    """Load the file on the CPU; the rest is as `msd.runners.interpreter.Interpreter` takes it."""

    path: Path
    threads: int | None = None
    float_weights: bool = True
    library: str = LITERT


@dataclass(frozen=True)
class CompileForCpu:
    """Load the file on the CPU as LiteRT's compiled model, its packed weights in a file that is mapped.

    `threads` and `float_weights` as in LoadOnCpu, `signature` as in LoadOnGpu.
    """

    path: Path
    threads: int
    float_weights: bool
    signature: str | None = None


@dataclass(frozen=True)
class RunModel:
    """Run the loaded model on these inputs."""

    inputs: dict[str, Array]


@dataclass(frozen=True)
class Done:
    """What was asked is done; `outputs` are those of a run.

    `seconds` are the library's own: what is imported, or made of the file for it, is not counted. `peak` is
    the peak resident memory of the process in bytes, `before` what it was when the library began to load.
    """

    seconds: float
    outputs: dict[str, Array]
    peak: int = 0
    before: int = 0


@dataclass(frozen=True)
class Refused:
    """What was asked could not be done, in the library's words."""

    words: str


Load = LoadOnGpu | LoadOnCpu | CompileForCpu
Request = Load | RunModel
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
        """Those of inputs and outputs; on the CPU, what is computed with is allocated with them."""
        inputs = {name: self._input(name) for name in self._details("input")}
        return inputs, {name: self._output(name) for name in self._details("output")}

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        given, made = self.buffers
        for name, value in inputs.items():
            given[name].write(value)
        self.model.run_by_name(self.signature, given, made)
        details = self._details("output").items()
        return {name: self._read(made[name], detail) for name, detail in details}

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

    wanted = HardwareAccelerator.GPU
    if request.cpu_too:
        wanted |= HardwareAccelerator.CPU
    gpu = GpuOptions(enforce_f32=request.precision == "fp32")
    compiled = Compiled(request.path, Options(wanted, gpu_options=gpu), request.signature)
    assert compiled.buffers, "made now: what the GPU refuses, it refuses when it loads"
    return compiled


def compile_for_cpu(request: CompileForCpu) -> Compiled:
    """Return the model as XNNPACK runs it: the same numbers as those of the interpreter, in less memory.

    XNNPACK packs each weight into a file as it loads, which the model maps: neither the weights as they were
    nor two copies of a packed one stay in memory. What is computed with is allocated in the first run only.
    Where the weights are given as floats, the file would be four times as large as the model; it is left out.
    """
    from ai_edge_litert.compiled_model import CpuOptions, HardwareAccelerator, Options

    with tempfile.TemporaryDirectory(prefix="msd-packed-weights-") as folder:
        packed = "" if request.float_weights else f"{folder}/weights"
        cpu = CpuOptions(num_threads=request.threads, xnnpack_weight_cache_path=packed)
        options = Options(HardwareAccelerator.CPU, cpu_options=cpu)
        with file_to_load(tflite.read(request.path), request.path, request.float_weights) as file:
            return Compiled(file, options, request.signature)


class Models:
    """The loaded model, once there is one: what this process answers its parent."""

    def __init__(self) -> None:
        self.runner: LoadedModel | None = None

    def answer(self, request: Request) -> Done:
        """Load or run; raises whatever the library raises."""
        if isinstance(request, RunModel):
            assert self.runner is not None, "the parent loads before it runs"
            start = perf_counter()
            outputs = self.runner.run(request.inputs)
            return Done(perf_counter() - start, outputs, peak_rss())
        before, self.runner, seconds = _load(request)
        return Done(seconds, {}, peak_rss(), before)


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
        except Exception as problem:  # whatever it is, the parent is to know
            reply = Refused(str(problem))
        connection.send(reply)


def _load(request: Load) -> tuple[int, LoadedModel, float]:
    """Return the peak memory before, the model, and the seconds that the library took to load it."""
    if not isinstance(request, LoadOnCpu) or request.library == LITERT:
        from msd.runners.verbosity import say_partitions

        say_partitions()
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


def main(handle: int) -> None:
    """Serve the parent over the inherited socket `handle`."""
    serve(Connection(handle), Models().answer)
    # The drivers' own clean-up has nothing left to save and has been seen to crash.
    os._exit(0)
