"""Full-size U-Nets as structures without weights, some kilobytes each, and random weights for them.

python scripts/full_size_structures.py trace build                           # needs TensorFlow
python scripts/full_size_structures.py strip unet.tflite build/sd15-litert-torch.zip
"""

from __future__ import annotations

import tempfile
import tomllib
from functools import cache
from pathlib import Path

import click
import numpy as np

from msd.graph import tflite
from msd.graph.ir.weights import Array, Weights
from msd.models.families.stable_diffusion import STABLE_DIFFUSION, UNET
from msd.models.structure import Structure, VariableSpec, save_structure

STRUCTURES = {"sd21-base": 1, "sd21-base-batch2": 2, "sd15-batch2": 2}
"""The batch of each."""

LARGE = 64
"""Weights with at least this many values are random."""


@click.group()
def main() -> None:
    """Make structures without weights."""


@main.command("trace")
@click.argument("folder", type=click.Path(path_type=Path))
def trace_structures(folder: Path) -> None:
    """Write to FOLDER the U-Nets' structures."""
    from msd.models.networks import networks, read_configs, size_of
    from msd.models.trace import trace

    folder.mkdir(parents=True, exist_ok=True)
    for name, batch in STRUCTURES.items():
        public = tomllib.loads(Path(f"configs/models/{name.removesuffix('-batch2')}.toml").read_text())
        configs = read_configs(STABLE_DIFFUSION, public)
        size = size_of(STABLE_DIFFUSION, configs, batch=batch)
        unet = networks(STABLE_DIFFUSION, configs, size)[UNET.name]
        save_structure(trace(unet.build, unet.inputs), folder / f"{name}.zip")


@main.command("strip")
@click.argument("model", type=click.Path(path_type=Path, exists=True))
@click.argument("output", type=click.Path(path_type=Path))
def strip_weights(model: Path, output: Path) -> None:
    """Write to OUTPUT the structure of a .tflite file: its large weights become variables."""
    read = tflite.read(model)
    graph, variables = read.main, {}
    signature = graph.signatures[0]
    names = tuple(signature.inputs), tuple(signature.outputs)
    graph.inputs, graph.outputs = list(signature.inputs.values()), list(signature.outputs.values())
    for number, tensor in enumerate(graph.tensors()):
        if tensor.data is not None and tensor.size >= LARGE:
            tensor.name, tensor.data = f"variable_{number}", None
            variables[tensor.name] = VariableSpec(tensor.name, tuple(tensor.shape))
            graph.inputs.append(tensor)
    for name, tensor in signature.inputs.items():
        tensor.name = name
    graph.signatures = []
    with tempfile.TemporaryDirectory() as folder:
        tflite.write(read, Path(folder) / "structure.tflite")
        flatbuffer = (Path(folder) / "structure.tflite").read_bytes()
    save_structure(Structure(flatbuffer, *names, variables), output)


def draw(spec: VariableSpec, seed: int, outputs_first: bool) -> Weights:
    """Return weights of variance 1/fan-in, near 1 for gamma, from one repeated row of normal numbers.

    TFLite stores the weights of one output together; Keras has outputs last.
    """
    fan_in = int(np.prod(spec.shape[1:] if outputs_first else spec.shape[:-1]))

    def load() -> Array:
        values = np.resize(np.roll(normals(), seed), spec.shape)
        if spec.path.endswith("gamma"):
            return 1 + values / 10
        return values / np.float32(10 if len(spec.shape) == 1 else np.sqrt(fan_in))

    return Weights(spec.shape, np.dtype(np.float32), load, f"random {spec.path}", sources=(spec.path,))


@cache
def normals() -> Array:
    """Return a prime number of normal numbers, so that no row of weights repeats another."""
    return np.random.default_rng(0).standard_normal(1_048_583, dtype=np.float32)


def drawn(structure: Structure, outputs_first: bool = False) -> dict[str, Weights]:
    """Return weights for all variables of a structure."""
    every = enumerate(structure.variables.items())
    return {key: draw(spec, 7919 * number, outputs_first) for number, (key, spec) in every}


if __name__ == "__main__":
    main()
