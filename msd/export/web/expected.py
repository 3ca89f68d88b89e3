"""What LiteRT's CPU computes for inputs that a page can make too: its GPU is held against these numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from msd.export.web.manifest import ExpectedOutputs, WebFile
from msd.export.web.web_file import web_file
from msd.graph import tflite
from msd.graph.ir.interface import compared_ids
from msd.graph.ir.weights import Array
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import SMALL_INTEGERS
from msd.run.runtime.noise import posterior_noise
from msd.tensor_spec import TensorSpec

FOLDER = "expected"
SEED = 0


def write_expected(path: Path, role: str, inputs: Sequence[TensorSpec], folder: Path) -> ExpectedOutputs:
    """Run a .tflite file on the CPU in float32, and write its outputs to the model's folder.

    `inputs` in the order of sd-manifest.json. Raises BadModelFile for a file that the CPU cannot run.
    """
    (folder / FOLDER).mkdir(exist_ok=True)
    lengths = [port.table_length for port in inputs if port.table_length]
    tokens = min(lengths, default=SMALL_INTEGERS)
    end = next(iter(compared_ids(tflite.read(path)).values()), None)
    with Interpreter(path, float_weights=True) as cpu:
        results = cpu.run(expected_inputs(inputs, SEED, tokens, end))
    files: dict[str, WebFile] = {}
    for name, values in results.items():
        place = folder / FOLDER / f"{role}.{len(files)}.bin"
        place.write_bytes(np.ascontiguousarray(values, "<f4").tobytes())
        files[name] = web_file(place, folder)
    return ExpectedOutputs(seed=SEED, tokens=tokens, outputs=files, end=end)


def expected_inputs(
    inputs: Sequence[TensorSpec], seed: int, tokens: int, end: int | None = None
) -> dict[str, Array]:
    """Return the inputs by name: float32 noise of the input's number as stream, or ids below `tokens`.

    The last id is `end`, where there is one.
    """
    return {port.name: _input(port, seed, number, tokens, end) for number, port in enumerate(inputs)}


def _input(port: TensorSpec, seed: int, number: int, tokens: int, end: int | None) -> Array:
    if port.dtype == "float32":
        return posterior_noise(seed, port.shape, number)
    ids = np.arange(np.prod(port.shape)) % tokens
    if end is not None:
        ids[-1] = end
    return ids.reshape(port.shape).astype(port.dtype)
