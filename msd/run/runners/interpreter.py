"""Run a .tflite file on the CPU with LiteRT's interpreter, or with an older one of the same interface."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, cast

import numpy as np

from msd.errors import BadModelFile
from msd.files.scratch import scratch_folder
from msd.files.silence import without_lines
from msd.graph import tflite
from msd.graph.ir import Model
from msd.graph.ir.float_weights import dequantize_weights
from msd.graph.ir.interface import Interface
from msd.graph.ir.weights import Array
from msd.run.runners.checks import check, one_line
from msd.run.runners.messages import LITERT
from msd.run.runners.peak_memory import peak_rss
from msd.run.runners.runner import Placement, ProcessMemory

STARTUP_LINE = re.compile(rb"INFO: Created TensorFlow Lite XNNPACK delegate for CPU\.")


class Interpreter:
    """A .tflite file loaded on the CPU, to be run many times; a context manager that frees its memory.

    `library` is the package that provides the interpreter. `inputs` and `outputs` are named as in the first
    signature, or as the tensors where there is none. With `float_weights`, weights stored in fewer bits are
    converted to float32 and all arithmetic is float32, as on a GPU; without it TensorFlow Lite quantises the
    inputs of such operations too. `load_seconds` is the time that LiteRT took to load the file, `run_seconds`
    that of each run until now. Raises BadModelFile for a file that is damaged or that the CPU cannot run.
    """

    def __init__(
        self,
        path: Path,
        *,
        threads: int | None = None,
        float_weights: bool = False,
        library: str = LITERT,
    ) -> None:
        model = tflite.read(path)
        ports = Interface.of(model, path)
        self.path, self.signature = path, ports.signature
        self.inputs, self.outputs = ports.inputs, ports.outputs
        self.placement = Placement("CPU", "fp32" if float_weights else "dynamic range", threads)
        self.run_seconds: list[float] = []
        self._before, self._interpreter = peak_rss(), cast(Any, None)
        with file_to_load(model, path, float_weights) as file:
            self._load(file, threads, library)

    def _load(self, file: Path, threads: int | None, library: str) -> None:
        interpreter = importlib.import_module(f"{library}.interpreter")
        start = perf_counter()
        try:
            with without_lines(STARTUP_LINE):
                self._interpreter = interpreter.Interpreter(str(file), num_threads=threads)
                self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as problem:
            raise BadModelFile(f"{self.path} cannot be loaded on the CPU: {one_line(problem)}") from problem
        self.load_seconds = perf_counter() - start

    @property
    def memory(self) -> ProcessMemory:
        """The memory of this process."""
        return ProcessMemory(self._before, peak_rss())

    @property
    def log(self) -> str:
        """Empty: the library's output in this process goes to stderr."""
        return ""

    def __enter__(self) -> Interpreter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Free the model's memory; it cannot run any more."""
        self._interpreter = None

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name for inputs by name; raises BadModelFile where they do not fit."""
        check(inputs, self.inputs, self.path)
        start = perf_counter()
        try:
            return self._run(inputs)
        except (ValueError, RuntimeError) as problem:
            raise BadModelFile(f"{self.path} failed on the CPU: {one_line(problem)}") from problem
        finally:
            self.run_seconds.append(perf_counter() - start)

    def _run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        if self.signature is not None:
            runner = self._interpreter.get_signature_runner(self.signature)
            return {name: np.asarray(value) for name, value in runner(**inputs).items()}
        by_name = {detail["name"]: detail["index"] for detail in self._interpreter.get_input_details()}
        for name, value in inputs.items():
            self._interpreter.set_tensor(by_name[name], value)
        self._interpreter.invoke()
        details: list[dict[str, Any]] = self._interpreter.get_output_details()
        return {detail["name"]: self._interpreter.get_tensor(detail["index"]) for detail in details}


@contextmanager
def file_to_load(model: Model, path: Path, float_weights: bool) -> Iterator[Path]:
    """Yield `path`, or a temporary copy with weights that the CPU can read, which changes `model`.

    With `float_weights` these are all in float, otherwise those in float16. `model` is the content of the
    file at `path`. Loaded files are mapped into memory, so the temporary copy can be removed once it is
    loaded.
    """
    if not dequantize_weights(model, integers=float_weights):
        yield path
        return
    with scratch_folder() as folder:
        tflite.write(model, folder / path.name)
        yield folder / path.name


def require_loadable(path: Path) -> None:
    """Raise BadModelFile where LiteRT cannot load the file; maps it into memory and reads its structure."""
    from ai_edge_litert.interpreter import Interpreter as LiteRt
    from ai_edge_litert.interpreter import OpResolverType

    try:
        LiteRt(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    except (ValueError, RuntimeError) as problem:
        raise BadModelFile(f"{path} cannot be loaded on the CPU: {one_line(problem)}") from problem
