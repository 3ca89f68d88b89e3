"""A model without weights, as it is traced, stored and bound."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

from msd.errors import BadModelFile

FLATBUFFER, NAMES = "structure.tflite", "names.json"


@dataclass(frozen=True)
class VariableSpec:
    """A Keras variable: `path` is "layer/…/variable", unique in its model; `shape` is Keras's."""

    path: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Structure:
    """A model without weights.

    `flatbuffer` is a TFLite model whose inputs are the tensors named in `inputs`, then those in
    `variables`, which says the variable each one stands for; `outputs` are named as the Keras model names
    them, or "output_0", ….
    """

    flatbuffer: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    variables: dict[str, VariableSpec]


def save_structure(structure: Structure, path: Path) -> None:
    """Write to `path` a zip file of the flatbuffer and of what its tensors stand for, as JSON."""
    names = {k: v for k, v in asdict(structure).items() if k != "flatbuffer"}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(FLATBUFFER, structure.flatbuffer)
        file.writestr(NAMES, json.dumps(names))


def load_structure(path: Path) -> Structure:
    """Return what `save_structure` wrote, checked by CRC-32; raises BadModelFile for anything else."""
    try:
        with zipfile.ZipFile(path) as file:
            flatbuffer, names = file.read(FLATBUFFER), json.loads(file.read(NAMES))
        variables = {k: VariableSpec(v["path"], tuple(v["shape"])) for k, v in names["variables"].items()}
        return Structure(flatbuffer, tuple(names["inputs"]), tuple(names["outputs"]), variables)
    except Exception as problem:  # Damaged zip files have zipfile raise nearly anything.
        raise BadModelFile(f"{path} is not a stored structure: {problem}") from problem
