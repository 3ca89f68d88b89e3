"""A file of an adapter, or a folder with one, and which of several adapters in it is meant."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msd.conversion.sources.embedding_file import bundled_tokens
from msd.conversion.sources.lora_alpha import PEFT_STEM
from msd.conversion.sources.lora_parts import AdapterPart, refuse_others, split
from msd.conversion.sources.weight_file import is_weight_file, read_contents
from msd.errors import BadCheckpoint
from msd.graph.ir.weights import Array, Weights

BUNDLE = "bundle_emb."
USUAL = (
    f"{PEFT_STEM}.safetensors",
    f"{PEFT_STEM}.bin",
    "pytorch_lora_weights.safetensors",
    "pytorch_lora_weights.bin",
)
"""The names under which peft and diffusers save an adapter in a folder."""


@dataclass(frozen=True)
class AdapterTensor:
    """A tensor of the file at `path`, named `key` there."""

    path: Path
    key: str
    weights: Weights

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.weights.shape

    def load(self) -> Array:
        """Return its values; raises BadCheckpoint for those that are not finite."""
        array = self.weights.load()
        if not np.isfinite(array).all():
            raise BadCheckpoint(
                f"{self.path}'s {self.key} holds values that are not finite (NaN or infinity)"
            )
        return array

    def bad(self, what: str) -> BadCheckpoint:
        """Return the error that says `what` is wrong with its shape."""
        return BadCheckpoint(f"{self.path}'s {self.key} has the shape {list(self.shape)}, {what}")


@dataclass(frozen=True)
class AdapterFile:
    """The adapter in the file at `path`: its tensors, what each is, and the file's metadata."""

    path: Path
    tensors: Mapping[str, AdapterTensor]
    parts: Mapping[str, AdapterPart]
    metadata: Mapping[str, str]
    remark: str = ""

    @property
    def called(self) -> str:
        """The name that tells which adapter it is: the file's, or its folder's where that is a usual one."""
        return self.path.absolute().parent.name if self.path.name in USUAL else self.path.stem


def open_adapter(given: Path) -> AdapterFile:
    """Return the adapter at `given`: a file, or a folder, and after a colon its name, if it has several.

    Raises BadCheckpoint for any other file, and where the name is missing or wrong.
    """
    path, name = located(given)
    contents = read_contents(path)
    embeddings = bundled_tokens(contents.tensors)
    keys = [key for key in contents.tensors if not key.startswith(BUNDLE)]
    refuse_others(path, keys)
    found = split(keys)
    for key, part in found.items():
        if part is None:
            raise BadCheckpoint(f"{path} has {key}, which is no part of a LoRA: down, up or alpha")
    parts = _chosen(path, name, {key: part for key, part in found.items() if part})
    if not parts:
        raise BadCheckpoint(f"{path} has no tensors; a LoRA has a down and an up matrix for each layer")
    tensors = {key: AdapterTensor(path, key, contents.tensors[key]) for key in parts}
    return AdapterFile(
        path=path,
        tensors=tensors,
        parts=parts,
        metadata=contents.metadata,
        remark=_of_embeddings(path, embeddings),
    )


def located(given: Path) -> tuple[Path, str | None]:
    """Return the file that is meant, and the name of the adapter in it, None without one."""
    name = None
    path, text = given, str(given)
    if not given.exists():
        ends = (at for at, letter in enumerate(text) if letter == ":" and Path(text[:at]).exists())
        if (at := next(ends, None)) is not None:
            path, name = Path(text[:at]), text[at + 1 :]
    if not path.is_dir():
        return path, name
    if name and (path / name).is_dir():
        path, name = path / name, None
    return _inside(path), name


def _inside(folder: Path) -> Path:
    """Return the file with the adapter in a folder."""
    for usual in USUAL:
        if (folder / usual).is_file():
            return folder / usual
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and is_weight_file(path)]
    if len(files) == 1:
        return files[0]
    if files:
        names = ", ".join(path.name for path in files[:8])
        raise BadCheckpoint(f"{folder} holds {len(files)} files of weights: {names}; give one of them")
    adapters = [path.name for path in sorted(folder.iterdir()) if any((path / u).is_file() for u in USUAL)]
    if adapters:
        raise BadCheckpoint(
            f"{folder} has the adapters {', '.join(adapters)}; choose one, as in {folder.name}:{adapters[0]}"
        )
    raise BadCheckpoint(f"{folder} holds no adapter; {USUAL[0]} was expected")


def _chosen(path: Path, name: str | None, parts: Mapping[str, AdapterPart]) -> dict[str, AdapterPart]:
    """Return the parts of the adapter that is meant."""
    adapters = sorted({part.adapter for part in parts.values()} - {""})
    if name is not None and name not in adapters:
        there = f"it has {', '.join(adapters)}" if adapters else "its adapter has no name"
        raise BadCheckpoint(
            f"{path} has no adapter called {name!r}: {there}; a scale is a number, as in {path.name}:0.7"
        )
    if name is None and len(adapters) > 1:
        raise BadCheckpoint(
            f"{path} has {len(adapters)} adapters: {', '.join(adapters)}; choose one, as in"
            f" {path.name}:{adapters[0]}"
        )
    return {key: part for key, part in parts.items() if name is None or part.adapter in ("", name)}


def _of_embeddings(path: Path, tokens: Collection[str]) -> str:
    """Return what is said of embeddings beside a LoRA."""
    if not tokens:
        return ""
    return (
        f"{path} carries the embedding of {', '.join(tokens)} beside its LoRA, which --lora does not add;"
        f" --embedding {path.name} adds it"
    )
