"""Replaces a checkpoint's U-Net by another: authors of few-step models publish that network alone.

It is a folder that diffusers wrote, an id on Hugging Face, or one file: in diffusers' layout or in CompVis's.
A file without a config.json beside it has the configuration of the checkpoint's own U-Net, but for the
channels that it reads and a guidance scale that it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msd.conversion.few_steps import FewSteps, few_steps_told
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.compvis.part import NetworkTensors
from msd.conversion.sources.compvis.unet import unet_tensors
from msd.conversion.sources.diffusers import CONFIG, config_beside, network_in, tensors_of
from msd.conversion.sources.hub import local_unet
from msd.conversion.sources.old_size import with_usual_size
from msd.conversion.sources.other_formats import remedy_for_address
from msd.conversion.sources.replacement import unwrapped, with_networks
from msd.conversion.sources.two_names import require_equal_without
from msd.conversion.sources.weight_file import read_contents
from msd.errors import BadCheckpoint, BadConfig
from msd.graph.ir.weights import Weights
from msd.models.config import UNetConfig
from msd.models.families import Part
from msd.models.networks import read_config

KINDS = "a folder of diffusers' UNet2DConditionModel, or a file with one"
FIRST, GUIDANCE = "conv_in.weight", "time_embedding.cond_proj.weight"
COMPVIS = "input_blocks.0.0.weight"
WRAPPERS = ("model.diffusion_model.", "diffusion_model.", "unet.", "module.", "model.")
MOST_SHOWN = 3


@dataclass(frozen=True)
class _UNet:
    """A U-Net: diffusers' settings, None where a file has none, its tensors by diffusers' names.

    `files` are those that were read, by the name to show, and `few_steps` the kind that its name tells.
    """

    settings: Mapping[str, Any] | None
    tensors: Mapping[str, Weights]
    files: Mapping[str, Path]
    few_steps: FewSteps | None
    remark: str = ""


def replace_unet(checkpoint: Checkpoint, path: Path | None) -> Checkpoint:
    """Return the checkpoint with the U-Net at `path` in place of its own; itself for None.

    What the checkpoint knew of its own U-Net is gone: the kind of few-step model is what the name at `path`
    tells, if anything. Reads only headers, and downloads what is an id on Hugging Face. Raises BadConfig for
    a checkpoint with networks of keras-cv; BadCheckpoint, naming the path, for anything else than a U-Net,
    and for one that does not fit.
    """
    if path is None:
        return checkpoint
    if checkpoint.networks != "msd":
        raise BadConfig(f"{path} cannot replace a network of {checkpoint.networks}; leave out --source")
    component = checkpoint.family.denoiser
    opened, sized = _opened(path, component.part), tuple[str, ...]()
    try:
        if opened.settings is None:
            config = _config_by_shapes(opened.tensors, checkpoint)
        else:
            settings, sized = with_usual_size(f"{CONFIG} of {path}", opened.settings)
            config = read_config(component, settings)
        checkpoint.family.require_fit({**checkpoint.configs, component.name: config})
    except BadCheckpoint as error:
        raise BadCheckpoint(f"{path} does not fit {checkpoint.name}: {error}") from error
    weights = {component.name: opened.tensors}
    replaced = with_networks(checkpoint, {component.name: config}, weights, opened.files, opened.remark)
    return replace(
        replaced,
        images=None,
        pruned={name: pruning for name, pruning in checkpoint.pruned.items() if name != component.name},
        few_steps=opened.few_steps,
        few_steps_by=str(path),
        remarks=(*replaced.remarks, *sized),
    )


def _opened(path: Path, part: Part) -> _UNet:
    found = local_unet(path)
    if not found.exists():
        raise BadCheckpoint(f"{path} does not exist; {remedy_for_address(path) or f'give {KINDS}'}")
    return _folder(found, part, path.name) if found.is_dir() else _file(found, part)


def _folder(path: Path, part: Part, name: str) -> _UNet:
    """Return the U-Net in a folder that diffusers wrote: its own, or one of a whole checkpoint."""
    settings, stored, files = network_in(path, part.folder, part.stem)
    if FIRST not in stored.tensors:
        raise BadCheckpoint(f"{path} is no U-Net; give {KINDS}")
    shown = {file.relative_to(path).as_posix(): file for file in files}
    tensors = tensors_of(str(path), part, stored.tensors)
    return _UNet(settings, tensors, shown, few_steps_told(name, {}), remark=stored.remark)


def _file(path: Path, part: Part) -> _UNet:
    contents, where = read_contents(path), str(path)
    require_equal_without(where, contents.tensors, WRAPPERS)
    tensors, files = unwrapped(contents.tensors, WRAPPERS, (COMPVIS, FIRST)), {path.name: path}
    told = few_steps_told(path.stem, contents.metadata)
    if COMPVIS in tensors:
        return _UNet(None, unet_tensors(NetworkTensors.of(where, tensors, "")), files, told)
    if FIRST not in tensors:
        raise BadCheckpoint(f"{path} is no U-Net; give {KINDS}")
    settings = config_beside(path, part)
    if settings is not None:
        files = {CONFIG: path.with_name(CONFIG), **files}
    return _UNet(settings, tensors_of(where, part, tensors), files, told)


def _config_by_shapes(tensors: Mapping[str, Weights], checkpoint: Checkpoint) -> UNetConfig:
    """Return the configuration of the checkpoint's own U-Net, as far as the shapes are its."""
    name = checkpoint.family.denoiser.name
    own, config = checkpoint.weights[name], checkpoint.configs[name]
    _require_same(tensors, own)
    assert isinstance(config, UNetConfig), "the denoiser of our families is a U-Net"
    guidance = tensors[GUIDANCE].shape[1] if GUIDANCE in tensors else None
    return replace(config, in_channels=tensors[FIRST].shape[1], guidance_width=guidance)


def _require_same(tensors: Mapping[str, Weights], own: Mapping[str, Weights]) -> None:
    """Refuse another U-Net than the checkpoint's own, which a file without a configuration does not tell."""
    remedy = "; a config.json beside diffusion_pytorch_model.safetensors, as diffusers saves it, would tell"
    differing = (own.keys() ^ tensors.keys()) - {GUIDANCE}
    if differing:
        shown = ", ".join(sorted(differing)[:MOST_SHOWN])
        more = f" and {len(differing) - MOST_SHOWN} more" if len(differing) > MOST_SHOWN else ""
        raise BadCheckpoint(f"it is another U-Net, for one of both lacks {shown}{more}{remedy}")
    for name, tensor in tensors.items():
        if name not in (FIRST, GUIDANCE) and tensor.shape != own[name].shape:
            raise BadCheckpoint(
                f"it is another U-Net: its {name} has the shape {list(tensor.shape)}, and the checkpoint's"
                f" {list(own[name].shape)}{remedy}"
            )
