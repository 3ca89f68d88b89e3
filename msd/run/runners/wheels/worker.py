"""The child process in the environment of a wheel: it compiles a file for the GPU and runs it on request.

It reads the version's API by what is there. Before 2.1.5 no caller can choose the arithmetic's precision, and
the first ones do not tell the outputs' shapes, so that the parent does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

import numpy as np

from msd.run.runners.peak_memory import peak_rss
from msd.run.runners.verbosity import log_partitions
from msd.run.runners.wheels.message import Array, Message, pack, unpack


class CompiledFile:
    """A file compiled for the GPU; `wanted` are the facts of the request to load it."""

    def __init__(self, wanted: Mapping[str, Any]) -> None:
        self.model = _compile(wanted["path"], wanted["precision"], wanted["cpu_too"])
        self.outputs: dict[str, tuple[list[int], str]] = wanted["outputs"]
        unnamed = wanted["signature"] is None
        self.signature = self.model.get_signature_by_index(0)["key"] if unnamed else wanted["signature"]
        self.sources = {name: self._buffer("input", name) for name in wanted["inputs"]}
        self.results = {name: self._buffer("output", name) for name in self.outputs}

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name."""
        for name, value in inputs.items():
            self.sources[name].write(value)
        self.model.run_by_name(self.signature, self.sources, self.results)
        return {name: self._read(name, *spec) for name, spec in self.outputs.items()}

    def _buffer(self, side: str, name: str) -> Any:
        return getattr(self.model, f"create_{side}_buffer_by_name")(self.signature, name)

    def _read(self, name: str, shape: list[int], dtype: str) -> Array:
        values = self.results[name].read(int(np.prod(shape, dtype=np.int64)), np.dtype(dtype).type)
        return np.asarray(values).reshape(shape)


def _compile(path: str, precision: str, cpu_too: bool) -> Any:
    from ai_edge_litert import compiled_model as api

    accelerators = api.HardwareAccelerator.GPU
    if cpu_too:
        accelerators |= api.HardwareAccelerator.CPU
    if not chooses_precision():
        return api.CompiledModel.from_file(path, hardware_accel=accelerators)
    gpu = api.GpuOptions(enforce_f32=precision == "fp32")
    return api.CompiledModel.from_file(path, options=api.Options(accelerators, gpu_options=gpu))


def chooses_precision() -> bool:
    """Whether this version lets a caller choose the precision of the GPU's arithmetic."""
    from ai_edge_litert import compiled_model as api

    return hasattr(api, "GpuOptions")


class Worker:
    """The file that is loaded, if any, and the answers to the parent's requests."""

    def __init__(self) -> None:
        self.file: CompiledFile | None = None

    def answer(self, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> Message:
        """Load a file, or run it on `arrays`; raises the library's errors."""
        if facts["do"] == "load":
            return self._load(facts), {}
        assert self.file is not None, "the parent loads before it runs"
        start = perf_counter()
        outputs = self.file.run(arrays)
        return {"seconds": perf_counter() - start, "peak": peak_rss()}, outputs

    def _load(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        self.file = None
        log_partitions()
        before, start = peak_rss(), perf_counter()
        self.file = CompiledFile(facts)
        seconds = perf_counter() - start
        return {"seconds": seconds, "peak": peak_rss(), "before": before}


def serve(connection: Connection, answer: Callable[..., Message]) -> None:
    """Answer requests until the other end hangs up."""
    while True:
        try:
            request = connection.recv_bytes()
        except EOFError:
            return
        try:
            facts, arrays = answer(*unpack(request))
            reply = pack({"done": facts}, arrays)
        except Exception as problem:  # the parent reports every error
            reply = pack({"refused": str(problem)}, {})
        connection.send_bytes(reply)


def main(handle: int) -> None:
    """Serve the parent over the inherited socket `handle`."""
    serve(Connection(handle), Worker().answer)
    # The drivers' own clean-up has nothing left to save, and it can crash.
    os._exit(0)
