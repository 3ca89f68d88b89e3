"""The child process: it loads one model, on the GPU delegate or on the CPU, and runs it on request.

The delegate may crash or hang this process; `msd.run.runners.child` is the parent's side. The native
libraries print to standard error, which the parent captures as the log.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from msd.gpu.phases import Phases
from msd.run.runners.channel import Channel
from msd.run.runners.messages import (
    LITERT,
    CompileForCpu,
    Done,
    Load,
    LoadOnCpu,
    LoadOnGpu,
    LoadOnWebGpu,
    MeasurePeaks,
    OpenGpu,
    Refused,
    Reply,
    Request,
    RunModel,
    TimeModel,
    Unload,
)
from msd.run.runners.peak_memory import peak_rss

if TYPE_CHECKING:
    from msd.gpu.device import OpenDevice
    from msd.graph.ir.weights import Array
    from msd.run.runners.webgpu_model import WebGpuModel

SWITCH = 0.001
"""The seconds for which a thread keeps Python's lock while others wait.

Opening a device takes it some hundred times: beside a thread that fuses a file, on an H200, 0.4 to 0.8 s
with Python's own 5 ms, 0.35 with this.
"""


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
        import numpy as np

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

    from msd.files.scratch import scratch_folder
    from msd.graph import tflite
    from msd.run.runners.interpreter import file_to_load

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
        self._gpu: tuple[OpenGpu, OpenDevice] | None = None
        self._opening = Phases()

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
        if isinstance(request, OpenGpu):
            start = perf_counter()
            # Drivers open a device without Python's lock, so what will load a file is imported meanwhile.
            imports = Thread(target=import_module, args=("msd.run.runners.webgpu_model",), daemon=True)
            imports.start()
            self._device(request)
            imports.join()
            return Done(perf_counter() - start, {}, peak_rss())
        if isinstance(request, Unload):
            start, loaded, self.runner = perf_counter(), _on_webgpu(self.runner), None
            loaded.close()
            return Done(perf_counter() - start, {}, peak_rss())
        before, self.runner, seconds = self._load(request)
        names = ("placement", "program", "opening")
        placed, program, opening = (getattr(self.runner, name, None) for name in names)
        return Done(seconds, {}, peak_rss(), before, placed=placed, program=program, opening=opening)

    def _load(self, request: Load) -> tuple[int, LoadedModel, float]:
        """Return the peak memory before, the model, and the seconds that the library took to load it."""
        if not isinstance(request, LoadOnWebGpu):
            return _load(request)
        from msd.run.runners.webgpu_model import WebGpuModel

        before, start = peak_rss(), perf_counter()
        device = partial(self._device, OpenGpu(request.precision, request.api))
        try:
            loaded = WebGpuModel(request.path, device, request.precision, request.without, self._opening)
        finally:
            self._opening = Phases()
        return before, loaded, perf_counter() - start

    def _device(self, wanted: OpenGpu) -> OpenDevice:
        """Return the device that is open already, or open one."""
        if self._gpu is None or self._gpu[0] != wanted:
            with self._opening.time("device"):
                from msd.gpu.device import open_device

                self._gpu = wanted, open_device(half=wanted.precision == "fp16", api=wanted.api)
        return self._gpu[1]


def serve(connection: Connection, answer: Callable[[Any], Done]) -> None:
    """Answer requests until the other end hangs up."""
    channel = Channel(connection)
    while True:
        try:
            request = channel.receive()
        except EOFError:
            return
        reply: Reply
        try:
            reply = answer(request)
        except Exception as problem:  # the parent reports every error
            reply = Refused(str(problem))
        channel.send(reply)


def _load(request: LoadOnGpu | LoadOnCpu | CompileForCpu) -> tuple[int, LoadedModel, float]:
    if not isinstance(request, LoadOnCpu) or request.library == LITERT:
        from msd.run.runners.verbosity import log_partitions

        log_partitions()
    before, start = peak_rss(), perf_counter()
    if isinstance(request, LoadOnGpu):
        return before, compile_for_gpu(request), perf_counter() - start
    if isinstance(request, CompileForCpu):
        return before, compile_for_cpu(request), perf_counter() - start
    from msd.run.runners.interpreter import Interpreter

    loaded = Interpreter(
        request.path,
        threads=request.threads,
        float_weights=request.float_weights,
        library=request.library,
    )
    return before, loaded, loaded.load_seconds


def _on_webgpu(runner: LoadedModel | None) -> WebGpuModel:
    from msd.run.runners.webgpu_model import WebGpuModel

    assert isinstance(runner, WebGpuModel), "the parent asks only what it loaded on WebGPU"
    return runner


def main(handle: int) -> None:
    """Serve the parent over the inherited socket `handle`."""
    sys.setswitchinterval(SWITCH)
    serve(Connection(handle), Models().answer)
    # The drivers' own clean-up has nothing left to save, and it can crash.
    os._exit(0)
