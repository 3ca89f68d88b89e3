"""The last release of TensorFlow Lite's own runtime on the CPU, the package tflite-runtime 2.14.

It runs in a process of its own: the library cannot be loaded beside LiteRT's or TensorFlow's.
"""

from __future__ import annotations

import re
from pathlib import Path

from msd.errors import BadModelFile, DelegateFailed, MsdError
from msd.graph import tflite
from msd.graph.ir import Model, Op
from msd.run.runners.backend import Backend
from msd.run.runners.backends.litert_cpu import SECONDS, on_cpu
from msd.run.runners.child import Bounds, ChildLost
from msd.run.runners.messages import LoadOnCpu
from msd.run.runners.process_runner import ProcessRunner
from msd.run.runners.runner import Conditions, Placement

NAME = "tflite-runtime 2.14"
PACKAGE = "tflite_runtime"
UNKNOWN_OP = re.compile(r"Didn't find op for builtin opcode '(\w+)' version '(\d+)'")
ONE_SCALE = ("FULLY_CONNECTED", "BATCH_MATMUL", "EMBEDDING_LOOKUP")
RECIPES = "it runs files of the recipes cpu-w8, float16 and float32"


class TfliteRuntime(ProcessRunner):
    """A file loaded by tflite-runtime.

    Raises BadModelFile for a file that is damaged or that 2.14 cannot run, and DelegateFailed when its
    process is lost.
    """

    def __init__(self, path: Path, conditions: Conditions) -> None:
        if not conditions.float_weights:
            refuse_misread(tflite.read(path), path)
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


def refuse_misread(model: Model, path: Path) -> None:
    """Raise BadModelFile for weights that 2.14 misreads without a word."""
    if clause := misread_weights(model):
        raise BadModelFile(f"{NAME} misreads {path}: it {clause}; {RECIPES}")


def misread_weights(model: Model) -> str | None:
    """Return, as the end of a sentence about 2.14, what it takes weights for; None where it reads all right.

    It does not check the type of a convolution's int4 filter, and of several scales it takes 0 in operators
    that it knows with one scale only, whose newer versions some converters do not ask for (measured).
    """
    ops = [op for graph in model.graphs for op in graph.ops]
    return next((clause for op in ops if (clause := _misread(op))), None)


def _misread(op: Op) -> str | None:
    w = op.inputs[1] if len(op.inputs) > 1 else None
    if w is None or w.data is None:
        return None
    if op.kind == "CONV_2D" and w.dtype == "INT4":
        return f"takes the int4 weights {w.name} for float32"
    scales = w.quant.scale.size if w.quant else 0
    floats = op.kind in ONE_SCALE and op.outputs[0].dtype == "FLOAT32"
    # Its other kernel for int4, for inputs in blocks of 32, knows a scale for each output.
    small = w.dtype == "INT8" or (w.dtype == "INT4" and w.shape[-1] % 32 > 0)
    if floats and small and scales > 1:
        return f"takes the {scales} scales of the {w.dtype.lower()} weights {w.name} of {op.kind} for 0"
    return None


BACKEND = Backend(
    name="tflite-runtime",
    open=TfliteRuntime,
    takes=frozenset({"threads", "float_weights"}),
    package=("tflite-runtime", PACKAGE),
    package_note="it exists for Python 3.11 and older",
    names_itself=True,
)
