"""The structure of a model: its graph without weights, as traced, stored and later bound to weights."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

from msd.errors import BadModelFile

FLATBUFFER, NAMES = "structure.tflite", "names.json"


@dataclass(frozen=True)
class VariableSpec:
    """A Keras variable: `path` is "layer/…/variable", unique in its model; `shape` is that in Keras."""

    path: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Structure:
    """A model without weights.

    `flatbuffer` is a TFLite model whose inputs are the tensors named in `inputs`, then those in `variables`,
    which maps each to its Keras variable. `outputs` have their names in the Keras model, or "output_0", ….
    """

    flatbuffer: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    variables: dict[str, VariableSpec]


def save_structure(structure: Structure, path: Path) -> None:
    """Write to `path` a zip file of the flatbuffer and, as JSON, the names of its inputs and variables.

    The same structure gives the same bytes: files in it have no date of their own.
    """
    names = {k: v for k, v in asdict(structure).items() if k != "flatbuffer"}
    with zipfile.ZipFile(path, "w") as file:
        for name, data in ((FLATBUFFER, structure.flatbuffer), (NAMES, json.dumps(names))):
            file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_LZMA)


def load_structure(path: Path) -> Structure:
    """Return the structure in a file of `save_structure`; raises BadModelFile for any other file.

    The zip format's CRC-32 detects damage.
    """
    try:
        with zipfile.ZipFile(path) as file:
            flatbuffer, names = file.read(FLATBUFFER), json.loads(file.read(NAMES))
        variables = {k: VariableSpec(v["path"], tuple(v["shape"])) for k, v in names["variables"].items()}
        return Structure(flatbuffer, tuple(names["inputs"]), tuple(names["outputs"]), variables)
    except Exception as problem:  # zipfile raises nearly anything for damaged files.
        raise BadModelFile(f"{path} is not a stored structure: {problem}") from problem
