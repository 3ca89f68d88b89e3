"""The last release of TensorFlow Lite's own runtime on the CPU, the package tflite-runtime 2.14.

It runs in a process of its own: the library cannot be loaded beside LiteRT's or TensorFlow's.
"""

from __future__ import annotations

import re
from pathlib import Path

from msd.errors import BadModelFile, DelegateFailed, MsdError
from msd.graph import tflite
from msd.graph.ir import Model
from msd.run.runners.backend import Backend
from msd.run.runners.backends.litert_cpu import SECONDS, on_cpu
from msd.run.runners.child import Bounds, ChildLost
from msd.run.runners.process_runner import ProcessRunner
from msd.run.runners.runner import Conditions, Placement
from msd.run.runners.worker import LoadOnCpu

NAME = "tflite-runtime 2.14"
PACKAGE = "tflite_runtime"
UNKNOWN_OP = re.compile(r"Didn't find op for builtin opcode '(\w+)' version '(\d+)'")
RECIPES = "it runs files of the recipes cpu-w8, float16 and float32"


class TfliteRuntime(ProcessRunner):
    """A file loaded by tflite-runtime.

    Raises BadModelFile for a file that is damaged or that 2.14 cannot run, and DelegateFailed when its
    process is lost.
    """

    def __init__(self, path: Path, conditions: Conditions) -> None:
        if not conditions.float_weights:
            refuse_int4(tflite.read(path), path)
        self.conditions = conditions
        bounds = Bounds.of(conditions.seconds or SECONDS, conditions.memory, conditions.stop)
        load = LoadOnCpu(path, conditions.cores, conditions.float_weights, PACKAGE)
        super().__init__(path, lambda signature: load, bounds)

    @property
    def placement(self) -> Placement:
        """The placement of the file; 2.14 does not log the operations that XNNPACK accepted."""
        return on_cpu(self.conditions)

    def lost(self, problem: ChildLost) -> MsdError:
        """Return the error for a process that died or exceeded its bounds."""
        return DelegateFailed(f"{NAME} was lost with {self.path}: {problem}")

    def refused(self, why: str, loading: bool) -> MsdError:
        """Return the error for a file that 2.14 could not load, or not run."""
        if match := UNKNOWN_OP.search(why):
            kind, version = match.groups()
            return BadModelFile(
                f"{NAME} cannot run {self.path}: it has no {kind} of version {version}; {RECIPES}"
            )
        return BadModelFile(f"{NAME} refuses a file: {why}")


def refuse_int4(model: Model, path: Path) -> None:
    """Raise BadModelFile for int4 filters, which 2.14 misreads as float32."""
    if name := int4_filter(model):
        raise BadModelFile(f"{NAME} misreads the int4 weights {name} of {path} as float32; {RECIPES}")


def int4_filter(model: Model) -> str | None:
    """Return the name of the first int4 filter of a convolution, whose type 2.14 does not check."""
    ops = [op for graph in model.graphs for op in graph.ops if op.kind == "CONV_2D"]
    return next((op.operands[1].name for op in ops if op.operands[1].dtype == "INT4"), None)


BACKEND = Backend(
    name="tflite-runtime",
    open=TfliteRuntime,
    takes=frozenset({"threads", "float_weights"}),
    package=("tflite-runtime", PACKAGE),
    names_itself=True,
)
