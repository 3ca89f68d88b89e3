"""Merges LoRA files into a checkpoint's weights (Hu et al., arXiv:2106.09685).

A layer's weight W becomes W + scale · (alpha / rank) · up @ down. A convolution's `down` has the kernel's
height and width, its `up` is a 1x1 convolution; flattened to matrices they multiply the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from msd.bounds import MOST_SCALE
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.lora_alpha import Alphas, peft_config
from msd.conversion.sources.lora_names import Layer, layer_names, refuse_others, split
from msd.conversion.sources.safetensors import read_contents
from msd.conversion.sources.stored import Contents
from msd.errors import BadCheckpoint, BadConfig
from msd.graph.ir.weights import Array, Weights
from msd.models.families.stable_diffusion import STABLE_DIFFUSION

PICKLES = (".bin", ".ckpt", ".pt", ".pth")
CONTEXT = (".attn2.to_k", ".attn2.to_v")
"""Layers that read the text encoder's output."""


def parse(text: str) -> tuple[Path, float]:
    """Return the file and the scale, 1 by default, of the option `FILE[:SCALE]`.

    File names may contain colons: the text after the last one is a scale if it is a number, or follows
    ".safetensors". Raises BadConfig for a scale that is not a finite number.
    """
    name, colon, scale = text.rpartition(":")
    if not colon or Path(text).is_file():
        return Path(text), 1.0
    try:
        return Path(name), _finite_scale(name, float(scale))
    except ValueError:
        if name.lower().endswith(".safetensors"):
            raise BadConfig(
                f"{text} ends in the scale {scale!r}; a number was expected, as in FILE:0.7"
            ) from None
        return Path(text), 1.0


def merge(checkpoint: Checkpoint, files: Sequence[tuple[Path, float]]) -> Checkpoint:
    """Return the checkpoint with LoRA files, each with its scale, merged into its weights one after another.

    Reads only headers: a weight changes when it is loaded. Weights that no file changes stay the same object,
    and a scale of 0 changes nothing. Raises BadConfig for a scale that is not finite or a checkpoint of
    another family; BadCheckpoint, naming file and tensor, for a file that is damaged, another kind of
    adapter, or for another model, and at load for values that are not finite.
    """
    if files and checkpoint.family is not STABLE_DIFFUSION:
        raise BadConfig(
            f"LoRA files can be merged into {STABLE_DIFFUSION.title} only, not {checkpoint.family.title}"
        )
    for path, scale in files:
        checkpoint = _merged(checkpoint, path, _finite_scale(path, scale))
    return checkpoint


def _merged(checkpoint: Checkpoint, path: Path, scale: float) -> Checkpoint:
    weights = {component: dict(tensors) for component, tensors in checkpoint.weights.items()}
    changed = set()
    for layer, change in _changes(checkpoint, path):
        name = f"{layer.name}.weight"
        if scale:
            weights[layer.component][name] = change.added_to(weights[layer.component][name], scale)
            changed.add(layer.component)
    shown_as = checkpoint.free_name("lora", path)
    config = peft_config(path)
    files = {shown_as: path} | ({checkpoint.free_name("lora", config): config} if config else {})
    return replace(
        checkpoint,
        weights={c: weights[c] if c in changed else old for c, old in checkpoint.weights.items()},
        files={**checkpoint.files, **files},
        weight_files={
            c: (*names, *files) if c in changed else names for c, names in checkpoint.weight_files.items()
        },
        adapters={**checkpoint.adapters, shown_as: scale},
    )


def _finite_scale(path: Path | str, scale: float) -> float:
    if not abs(scale) <= MOST_SCALE:
        raise BadConfig(f"the scale of {path} is {scale}, but it must be from -{MOST_SCALE} to {MOST_SCALE}")
    return float(scale)


@dataclass(frozen=True)
class _LoraTensor:
    """A tensor of the LoRA file at `path`, named `key` there."""

    path: Path
    key: str
    weights: Weights

    def load(self) -> Array:
        array = self.weights.load()
        if not np.isfinite(array).all():
            raise BadCheckpoint(
                f"{self.path}'s {self.key} holds values that are not finite (NaN or infinity)"
            )
        return array

    def bad(self, what: str) -> BadCheckpoint:
        return BadCheckpoint(f"{self.path}'s {self.key} has the shape {list(self.weights.shape)}, {what}")


@dataclass(frozen=True)
class _Change:
    """A file's change of one layer: `up` @ `down` times `alpha` / `divisor`."""

    down: _LoraTensor
    up: _LoraTensor
    alpha: _LoraTensor
    divisor: float

    def added_to(self, weights: Weights, scale: float) -> Weights:
        """Return `weights` plus `scale` times the change."""

        def add(array: Array) -> Array:
            factor = scale * float(self.alpha.load().item()) / self.divisor
            up, down = self.up.load(), self.down.load()
            with np.errstate(over="ignore", invalid="ignore"):
                change: Array = up.reshape(up.shape[:2]) @ down.reshape(len(down), -1)
                change *= factor
                change = change.reshape(array.shape)
                change += array
            if not np.isfinite(change).all() and np.isfinite(array).all():
                raise BadCheckpoint(f"{self.down.path} at scale {scale:g} takes weights beyond float32")
            return change

        return weights.map(f"+ {scale:g} x {self.down.path.name}:{self.down.key}", add)


def _changes(checkpoint: Checkpoint, path: Path) -> Iterator[tuple[Layer, _Change]]:
    """Yield each layer that the file changes, with the change; refuse one that does not fit the layer."""
    contents = _opened(path)
    alphas = Alphas(path, contents.metadata)
    for layer, parts in _parts(checkpoint, path, contents.tensors).items():
        if missing := [part for part in ("down", "up") if part not in parts]:
            present = next(parts[part] for part in ("down", "up", "alpha") if part in parts)
            raise BadCheckpoint(
                f"{path} has {present.key}, but no {' and no '.join(missing)} matrix for this layer"
            )
        down, up = parts["down"], parts["up"]
        _require_fit(layer, checkpoint.weights[layer.component][f"{layer.name}.weight"], down, up)
        rank = down.weights.shape[0]
        stated = alphas.alpha(layer)
        alpha = _LoraTensor(path, "alpha", Weights.of(float(rank if stated is None else stated)))
        divisor = alphas.divisor(layer, rank)
        yield layer, _Change(down, up, parts.get("alpha", alpha), divisor)


def _opened(path: Path) -> Contents:
    """Return the contents of the LoRA file at `path`; raises BadCheckpoint for any other file."""
    if path.suffix.lower() in PICKLES:
        raise BadCheckpoint(
            f"{path} is a pickle, which can run any code when it is read; use a .safetensors file"
        )
    contents = read_contents(path)
    refuse_others(path, contents.tensors)
    return contents


def _parts(
    checkpoint: Checkpoint, path: Path, tensors: Mapping[str, Weights]
) -> dict[Layer, dict[str, _LoraTensor]]:
    """Return the file's tensors by layer, then by "down", "up" or "alpha"."""
    names = layer_names(checkpoint)
    found: dict[Layer, dict[str, _LoraTensor]] = {}
    for key, weights in tensors.items():
        name_and_part = split(key)
        if name_and_part is None:
            raise BadCheckpoint(f"{path} has {key}, which is no part of a LoRA: down, up or alpha")
        name, part = name_and_part
        if name not in names:
            raise BadCheckpoint(
                f"{path} has {key}, but this checkpoint has no layer {name}; the LoRA is for another model"
            )
        parts = found.setdefault(names[name], {})
        if part in parts:
            raise BadCheckpoint(f"{path} has both {parts[part].key} and {key}, which are the same")
        parts[part] = _usable(_LoraTensor(path, key, weights), part)
    if not found:
        raise BadCheckpoint(f"{path} has no tensors; a LoRA has a down and an up matrix for each layer")
    return found


def _usable(tensor: _LoraTensor, part: str) -> _LoraTensor:
    """Return the tensor; refuse an alpha that is not one number, and a matrix that is not floating point."""
    if part == "alpha" and tensor.weights.size != 1:
        raise tensor.bad("and one number was expected")
    if part != "alpha" and tensor.weights.dtype != np.float32:
        raise BadCheckpoint(
            f"{tensor.path}'s {tensor.key} is {tensor.weights.dtype}, and only floating point is supported"
        )
    return tensor


def _require_fit(layer: Layer, weights: Weights, down: _LoraTensor, up: _LoraTensor) -> None:
    """Refuse a change with another shape than the layer's weight, (out, in) or (out, in, height, width)."""
    where = f"{layer.component}'s {layer.name}.weight, which is {list(weights.shape)}"
    expected, actual = _plain(weights.shape), _plain(down.weights.shape)
    if len(actual) < 2 or len(up.weights.shape) < 2 or 0 in actual:
        raise (up if len(up.weights.shape) < 2 else down).bad("and (rank, in) and (out, rank) were expected")
    if actual[1:] != expected[1:] and layer.name.endswith(CONTEXT) and len(actual) == 2:
        raise down.bad(
            f"made for contexts {actual[1]} wide, and this checkpoint's are {expected[1]} wide: "
            "the LoRA is for another model"
        )
    if actual[1:] != expected[1:]:
        raise down.bad(f"which does not fit {where}; the LoRA is for another model")
    if up.weights.shape[0] != expected[0] or len(_plain(up.weights.shape)) != 2:
        raise up.bad(f"which does not fit {where}; the LoRA is for another model")
    if up.weights.shape[1] != actual[0]:
        raise up.bad(f"but {down.key} has the rank {actual[0]}")


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a 1x1 convolution as that of a linear layer, and others unchanged."""
    return shape[:2] if shape[2:] == (1, 1) else shape
