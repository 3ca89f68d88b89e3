"""Networks of another file in place of a checkpoint's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.diffusers import CONFIG
from msd.graph.ir.weights import Weights
from msd.models.networks import Configs


def with_networks(
    checkpoint: Checkpoint,
    configs: Configs,
    weights: Mapping[str, Mapping[str, Weights]],
    files: Mapping[str, Path],
    remark: str = "",
) -> Checkpoint:
    """Return the checkpoint with these components of one folder in place of its own, or beside its own.

    `configs` and `weights` have the components by name, `files` all that were read, by the name to show.
    Files that only the replaced components needed are the checkpoint's no more.
    """
    names = tuple(weights)
    own = _own_files(checkpoint, names)
    shown = dict(_free_names(own, checkpoint.family.component(names[0]).part.folder, files))
    return replace(
        checkpoint,
        configs={**checkpoint.configs, **configs},
        weights={**checkpoint.weights, **weights},
        files={**own, **shown},
        weight_files={**checkpoint.weight_files, **dict.fromkeys(names, tuple(shown))},
        replaced=(*(name for name in checkpoint.replaced if name not in names), *names),
        remarks=(*checkpoint.remarks, *([remark] if remark else [])),
    )


def unwrapped(
    tensors: Mapping[str, Weights], wrappers: Sequence[str], known: Sequence[str]
) -> Mapping[str, Weights]:
    """Return the tensors without the prefix, one of `wrappers`, that a network's have in some files.

    It is the first below which a file has one of the `known` names.
    """
    for prefix in wrappers:
        if any(prefix + name in tensors for name in known):
            return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    return tensors


def _own_files(checkpoint: Checkpoint, replaced: Sequence[str]) -> dict[str, Path]:
    """Return the checkpoint's files without those that only the components to be replaced need."""
    old = {file for name in replaced for file in checkpoint.weight_files.get(name, ())}
    remaining = [name for name in checkpoint.weights if name not in replaced]
    needed = {file for name in remaining for file in checkpoint.weight_files[name]}
    own = {checkpoint.family.component(n).part.folder for n in remaining if n not in checkpoint.replaced}
    folders = {checkpoint.family.component(name).part.folder for name in replaced} - own
    old |= {f"{folder}/{CONFIG}" for folder in folders}
    return {name: path for name, path in checkpoint.files.items() if name in needed or name not in old}


def _free_names(
    files: Mapping[str, Path], folder: str, new: Mapping[str, Path]
) -> Iterator[tuple[str, Path]]:
    """Yield the `new` files under names that `files` do not have."""
    for name, path in new.items():
        shown = f"{folder}/{name}"
        while shown in files:
            shown = f"{folder}/{shown}"
        yield shown, path
