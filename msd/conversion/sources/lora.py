"""Merges LoRA files, and adapters of other kinds, into a checkpoint's weights.

A layer's weight W becomes W + scale · (alpha / rank) · change, where the change is that of its kind
(msd/conversion/sources/lora_change.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from msd.bounds import MOST_SCALE
from msd.conversion.few_steps import few_steps_told
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.lora_alpha import peft_config
from msd.conversion.sources.lora_file import AdapterFile, located, open_adapter
from msd.conversion.sources.lora_layers import LayerChange, layer_changes
from msd.conversion.sources.lora_model import require_same_model
from msd.errors import BadConfig
from msd.files.wording import counted


def parse(text: str) -> tuple[Path, float]:
    """Return the file, with the name of an adapter in it, and the scale of `FILE[:ADAPTER][:SCALE]`.

    The scale is 1 by default. File names may contain colons: the text after the last one is a scale if it is
    a number, or follows ".safetensors". Raises BadConfig for a scale that is not a finite number.
    """
    name, colon, scale = text.rpartition(":")
    if not colon or Path(text).exists():
        return Path(text), 1.0
    try:
        return Path(name), _finite_scale(name, float(scale))
    except ValueError:
        if name.lower().endswith(".safetensors") and not (scale and Path(name).exists()):
            raise BadConfig(
                f"{text} ends in the scale {scale!r}; a number was expected, as in FILE:0.7"
            ) from None
        return Path(text), 1.0


def merge(checkpoint: Checkpoint, files: Sequence[tuple[Path, float]]) -> Checkpoint:
    """Return the checkpoint with LoRA files, each with its scale, merged into its weights one after another.

    Reads headers, alphas, and matrices up to the first that changes something: a weight changes when it is
    loaded. Weights that no file changes stay the same object. What changes nothing, as a scale or an alpha of
    0 or matrices of zeros, the checkpoint's remarks say. Raises BadConfig for a scale that is not finite;
    BadCheckpoint, naming file and tensor, for a file that is damaged, another kind of adapter, or for another
    model, and for values that are not finite: those that are read at once, others at load.
    """
    for path, scale in files:
        checkpoint = _merged(checkpoint, path, _finite_scale(path, scale))
    return checkpoint


def _merged(checkpoint: Checkpoint, path: Path, scale: float) -> Checkpoint:
    weights = {component: dict(tensors) for component, tensors in checkpoint.weights.items()}
    changed = set()
    file = open_adapter(path)
    require_same_model(checkpoint, file)
    changes = [*layer_changes(checkpoint, file)]
    for layer, change in changes:
        of_layer = weights[layer.component]
        if scale:
            name = f"{layer.name}.weight"
            of_layer[name] = change.weight(of_layer[name], scale)
            changed.add(layer.component)
        if scale and change.changes_bias:
            of_layer[f"{layer.name}.bias"] = change.bias(of_layer[f"{layer.name}.bias"], scale)
    shown_as = checkpoint.free_name("lora", _shown(path, file.path))
    config, kind = peft_config(file.path), few_steps_told(file.called, file.metadata)
    few = {file.called: kind} if kind and scale else {}
    files = {shown_as: file.path} | ({checkpoint.free_name("lora", config): config} if config else {})
    return replace(
        checkpoint,
        weights={c: weights[c] if c in changed else old for c, old in checkpoint.weights.items()},
        files={**checkpoint.files, **files},
        weight_files={
            c: (*names, *files) if c in changed else names for c, names in checkpoint.weight_files.items()
        },
        adapters={**checkpoint.adapters, shown_as: scale},
        few_step_adapters={**checkpoint.few_step_adapters, **few},
        remarks=(*checkpoint.remarks, *_remarks(file, scale, [change for _, change in changes])),
    )


def _remarks(file: AdapterFile, scale: float, changes: Sequence[LayerChange]) -> Iterator[str]:
    """Yield what a file has that is not merged, and where it changes nothing."""
    if file.remark:
        yield file.remark
    if not scale:
        yield f"{file.path} changes nothing: its scale is 0"
    elif nothing := sum(change.adds_nothing for change in changes):
        where = (
            f"{nothing} of its {counted(len(changes), 'layer')}"
            if nothing < len(changes)
            else "all its layers"
        )
        yield f"{file.path} adds nothing in {where}, as in diffusers: there its alpha is 0"
    elif all(change.is_zero for change in changes):
        yield f"{file.path} changes nothing: all that it adds is 0, as before a LoRA's training"


def _shown(given: Path, file: Path) -> Path:
    """Return the name to show: the file's, and the adapter's in it, if one was named."""
    _, name = located(given)
    return file.with_name(f"{file.name}:{name}") if name else file


def _finite_scale(path: Path | str, scale: float) -> float:
    if not abs(scale) <= MOST_SCALE:
        raise BadConfig(f"the scale of {path} is {scale}, but it must be from -{MOST_SCALE} to {MOST_SCALE}")
    return float(scale)
