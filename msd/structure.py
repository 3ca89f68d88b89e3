"""A model without weights, as it is traced, stored and bound."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from msd.errors import BadModelFile


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
    """Write the flatbuffer to `path` and what its tensors stand for beside it, as .json."""
    path.write_bytes(structure.flatbuffer)
    names = {k: v for k, v in asdict(structure).items() if k != "flatbuffer"}
    path.with_suffix(".json").write_text(json.dumps(names, indent=1) + "\n", "utf-8")


def load_structure(path: Path) -> Structure:
    """Return what `save_structure` wrote; raises BadModelFile for anything else."""
    try:
        names = json.loads(path.with_suffix(".json").read_text("utf-8"))
        variables = {k: VariableSpec(v["path"], tuple(v["shape"])) for k, v in names["variables"].items()}
        return Structure(path.read_bytes(), tuple(names["inputs"]), tuple(names["outputs"]), variables)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise BadModelFile(f"{path} and its .json are not a stored structure: {problem}") from problem
