"""A graph, run on LiteRT's real interpreter."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Tensor
from tests.old_runtime import require_old_runtime

Array = np.ndarray[Any, Any]


def load(path: Path) -> Interpreter:
    """Return an interpreter of TFLite's own kernels, without XNNPACK, its tensors allocated."""
    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(str(path), experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    return interpreter


def run(path: Path, *feeds: Array) -> list[Array]:
    """Return the outputs of the file for inputs in order."""
    interpreter = load(path)
    for detail, value in zip(interpreter.get_input_details(), feeds, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def graph(new: Build, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Graph:
    """Return the verified graph of what was built."""
    made = Graph(inputs, outputs, new.ops)
    made.verify()
    return made


def run_graph(made: Graph, *feeds: Array) -> list[Array]:
    """Return the outputs of the graph for inputs in order."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.tflite"
        tflite.write(Model([made]), path)
        return run(path, *feeds)


def normal(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of standard deviation 1."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


OLD = """
import sys
import numpy as np
from tflite_runtime.interpreter import Interpreter
path, folder = sys.argv[1:]
interpreter = Interpreter(path)
interpreter.allocate_tensors()
for i, detail in enumerate(interpreter.get_input_details()):
    interpreter.set_tensor(detail["index"], np.load(f"{folder}/in{i}.npy", allow_pickle=True))
interpreter.invoke()
for i, detail in enumerate(interpreter.get_output_details()):
    np.save(f"{folder}/out{i}.npy", interpreter.get_tensor(detail["index"]))
"""


class OldRuntimeRefuses(Exception):
    """What tflite-runtime 2.14 says of a file that it does not load or run."""


def run_old(path: Path, *feeds: Array) -> list[Array]:
    """Return the outputs that tflite-runtime 2.14 computes; a process can hold one TensorFlow Lite only.

    Skips the test where there is none.
    """
    require_old_runtime()
    with tempfile.TemporaryDirectory() as folder:
        for i, value in enumerate(feeds):
            np.save(f"{folder}/in{i}.npy", value)
        done = subprocess.run(
            [sys.executable, "-c", OLD, str(path), folder], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise OldRuntimeRefuses(done.stderr)
        return [np.load(f"{folder}/out{i}.npy") for i in range(len(list(Path(folder).glob("out*.npy"))))]
