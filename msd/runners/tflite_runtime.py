"""A .tflite file in TensorFlow Lite's own last runtime, the package tflite-runtime 2.14, on the CPU.

It runs in a process of its own: the library cannot be loaded beside LiteRT's or TensorFlow's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from types import TracebackType

from msd import tflite
from msd.errors import BadModelFile, DelegateFailed
from msd.ir import Model
from msd.ir.interface import Interface
from msd.ir.weights import Array
from msd.runners.child import Bounds, Child, ChildLost, ChildRefused
from msd.runners.interpreter import check, one_line
from msd.runners.worker import Done, LoadOnCpu, Run

NAME = "tflite-runtime 2.14"
UNKNOWN_OP = re.compile(r"Didn't find op for builtin opcode '(\w+)' version '(\d+)'")
RECIPES = "files of the recipes cpu-w8, float16 and float32 run there whole"


class TfliteRuntime:
    """A .tflite file loaded by tflite-runtime, to be run many times; a context manager that ends its process.

    `threads` and `float_weights` as in msd.runners.interpreter.Interpreter; `timeout` bounds the loading and
    each run in seconds, and `stop`, when set, ends it. Raises BadModelFile for a file that is damaged or that
    2.14 cannot run, and DelegateFailed when its process is lost.
    """

    def __init__(
        self,
        path: Path,
        threads: int | None = None,
        float_weights: bool = True,
        timeout: float = 3600.0,
        stop: Event | None = None,
    ) -> None:
        model = tflite.read(path)
        if not float_weights:
            refuse_int4(model, path)
        self.path, self.inputs = path, Interface.of(model, path).inputs
        self._child = Child({}, Bounds.of(timeout, stop=stop))
        try:
            self._ask(LoadOnCpu(path, threads, float_weights, "tflite_runtime"))
        except BaseException:
            self._child.close()
            raise

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name; raises BadModelFile where `inputs` do not fit, and DelegateFailed."""
        check(inputs, self.inputs, self.path)
        return self._ask(Run(dict(inputs))).outputs

    def __enter__(self) -> TfliteRuntime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.close()

    def _ask(self, request: LoadOnCpu | Run) -> Done:
        try:
            return self._child.ask(request)
        except ChildLost as problem:
            raise DelegateFailed(f"{NAME} was lost with {self.path}: {problem}") from problem
        except ChildRefused as problem:
            raise BadModelFile(refusal(self.path, one_line(problem))) from problem


def refusal(path: Path, words: str) -> str:
    """Return why 2.14 does not run a file, from its own words."""
    if found := UNKNOWN_OP.search(words):
        kind, version = found.groups()
        return f"{NAME} cannot run {path}: it has no {kind} of version {version}; {RECIPES}"
    return f"{NAME} refuses a file: {words}"


def refuse_int4(model: Model, path: Path) -> None:
    """Raise BadModelFile for int4 filters, which 2.14 takes for something else."""
    if named := int4_filter(model):
        raise BadModelFile(f"{NAME} takes the int4 weights {named} of {path} for float32; {RECIPES}")


def int4_filter(model: Model) -> str | None:
    """Return the first int4 filter of a convolution: 2.14 does not know them, and does not look."""
    ops = [op for graph in model.graphs for op in graph.ops if op.kind == "CONV_2D"]
    return next((op.operands[1].name for op in ops if op.operands[1].dtype == "INT4"), None)
