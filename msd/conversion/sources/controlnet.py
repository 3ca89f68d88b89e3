"""Adds ControlNets to a checkpoint: a folder that diffusers wrote, or one file.

A file has the names of ControlNet's authors (msd/conversion/sources/compvis/control.py) or those of
diffusers. One without a config.json beside it has the U-Net's configuration, but for what shapes and a .yaml
beside it say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.compvis.control import HINT, WRAPPER, control_tensors
from msd.conversion.sources.compvis.part import NetworkTensors
from msd.conversion.sources.compvis.stated_control import as_stated
from msd.conversion.sources.diffusers import CONFIG, config_beside, network_in
from msd.conversion.sources.hub import is_id, local_controlnet
from msd.conversion.sources.other_formats import remedy_for_address
from msd.conversion.sources.two_names import require_equal_without
from msd.conversion.sources.weight_file import read_contents
from msd.errors import BadCheckpoint, BadConfig
from msd.files.wording import counted
from msd.graph.ir.weights import Weights
from msd.models.config import SIZES, AddedWidths, ControlledUNetConfig, UNetConfig
from msd.models.control_config import HINT_CHANNELS, ControlNetConfig, FusedUNetConfig
from msd.models.families import Component, Family, Part
from msd.models.families.control import NAME, component_of_control, with_controls
from msd.models.networks import read_config

KINDS = "a folder of diffusers' ControlNetModel, or a file with one"
EMBEDDING = "controlnet_cond_embedding"
ZERO_CONVOLUTIONS = "controlnet_down_blocks.", "controlnet_mid_block."
"""The layers that give a ControlNet's residuals; zeros until it is trained (arXiv 2302.05543)."""
OTHERS = {
    "lora_controlnet": "is a Control-LoRA",
    "difference": "is a ControlNet less a U-Net's weights, as its key difference says",
    "task_embedding": "is a ControlNet-Union",
}
"""What ControlNets of other kinds are, by a tensor that only these have."""

INPAINTING = "v11p_sd15_inpaint"
"""In the names of the ControlNet of lllyasviel whose pictures have -1, below black, where to repaint."""


def parse(text: str) -> tuple[Path, str | None]:
    """Return the path and the name of `PATH[:NAME]`; raises BadConfig for an impossible name."""
    path, colon, name = text.rpartition(":")
    if not colon or Path(text).exists():
        return Path(text), None
    component_of_control(name)
    return Path(path), name


def add_controls(
    checkpoint: Checkpoint, given: Sequence[tuple[Path, str | None]], fused: bool = False
) -> Checkpoint:
    """Return the checkpoint with ControlNets, each with its name or None for that of its file.

    Its U-Net then takes their residuals, or has them inside if `fused`. Reads only headers, beside zero
    convolutions up to the first that is none any more, and downloads what is an id on Hugging Face; remarks
    say of one that is not trained. Raises BadConfig for a checkpoint with networks of keras-cv or of a family
    without ControlNets, and for impossible names; BadCheckpoint, naming the path, for anything else than a
    ControlNet, and for one of another model.
    """
    if not given:
        if fused:
            raise BadConfig("--fuse-control does nothing without --controlnet")
        return checkpoint
    base, paths = checkpoint.family, [Path(path) for path, _ in given]
    names = tuple(name or _name_of(path) for path, (_, name) in zip(paths, given, strict=True))
    family = with_controls(base, names)
    if checkpoint.networks != "msd":
        raise BadConfig(f"{checkpoint.networks}'s U-Net cannot take a ControlNet's; leave out --source")
    denoiser = family.denoiser.name
    unet = checkpoint.configs[denoiser]
    checkpoint = replace(checkpoint, family=family)
    for name, path in zip(names, paths, strict=True):
        checkpoint = _with(
            checkpoint, family.component(component_of_control(name)), local_controlnet(path), unet
        )
        if INPAINTING in path.name:
            checkpoint = replace(checkpoint, remarks=(*checkpoint.remarks, _repaints(name, path)))
    checkpoint = replace(checkpoint, configs={**checkpoint.configs, denoiser: ControlledUNetConfig.of(unet)})
    if not fused:
        return checkpoint
    return _with_fused(checkpoint, with_controls(base, names, fused=True), names, unet)


def _with_fused(
    checkpoint: Checkpoint, family: Family, names: tuple[str, ...], unet: UNetConfig
) -> Checkpoint:
    """Return the checkpoint with its ControlNets inside the U-Net, their tensors below their names."""
    components, denoiser = {name: component_of_control(name) for name in names}, family.denoiser.name
    inside = components.values()
    files, weights = dict(checkpoint.weight_files), dict(checkpoint.weights)
    found = {each: weights.pop(each) for each in inside}
    weights[denoiser] = dict(weights[denoiser]) | {
        f"{each}.{tensor}": data for each, tensors in found.items() for tensor, data in tensors.items()
    }
    files[denoiser] = (*files[denoiser], *(file for each in inside for file in files.pop(each)))
    controls = {name: checkpoint.configs[each] for name, each in components.items()}
    others = {name: config for name, config in checkpoint.configs.items() if name not in inside}
    return replace(
        checkpoint,
        family=family,
        configs={**others, denoiser: FusedUNetConfig.of(unet, controls)},
        weights=weights,
        weight_files=files,
        replaced=tuple(name for name in checkpoint.replaced if name not in inside),
    )


def _name_of(path: Path) -> str:
    """Return a name for what is at `path`: that of the folder or id, or of the file without its ending."""
    is_whole = path.is_dir() or is_id(path)
    path = path.absolute()
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", path.name if is_whole else path.stem).lstrip("_-")[:64]
    if not NAME.fullmatch(name):
        raise BadConfig(f"{path} gives no name for its ControlNet; give PATH:NAME")
    return name


@dataclass(frozen=True)
class _ControlNet:
    """A ControlNet: diffusers' settings, None where a file has none, its tensors by diffusers' names."""

    settings: Mapping[str, Any] | None
    tensors: Mapping[str, Weights]
    files: tuple[Path, ...]
    remark: str = ""


def _with(checkpoint: Checkpoint, component: Component, path: Path, unet: UNetConfig) -> Checkpoint:
    opened = _opened(path, component.part)
    files = {f"{component.name}/{file.name}": file for file in opened.files}
    said: tuple[str, ...] = ()
    try:
        if opened.settings is None:
            config, said = as_stated(path, _config_by_shapes(str(path), opened.tensors, unet))
        else:
            # A ControlNet's configuration has no size of images.
            config = replace(read_config(component, opened.settings), size=unet.size)
        _require_fit(component.name, config, unet, checkpoint.configs[checkpoint.family.decoder.name].scale)
    except BadCheckpoint as error:
        replaced = " with --vae" if checkpoint.family.decoder.name in checkpoint.replaced else ""
        raise BadCheckpoint(f"{path} does not fit {checkpoint.name}{replaced}: {error}") from error
    return replace(
        checkpoint,
        configs={**checkpoint.configs, component.name: config},
        weights={**checkpoint.weights, component.name: opened.tensors},
        files={**checkpoint.files, **files},
        weight_files={**checkpoint.weight_files, component.name: tuple(files)},
        replaced=(*checkpoint.replaced, component.name),
        remarks=(*checkpoint.remarks, *said, *_remarks(path, opened)),
    )


def _remarks(path: Path, opened: _ControlNet) -> Iterator[str]:
    """Yield what is not read of a ControlNet, and where it steers nothing."""
    if opened.remark:
        yield opened.remark
    last = [weights for name, weights in opened.tensors.items() if name.startswith(ZERO_CONVOLUTIONS)]
    if last and not any(weights.load().any() for weights in last):
        yield f"{path} steers nothing: its zero convolutions are all 0, as before a ControlNet's training"


def _repaints(name: str, path: Path) -> str:
    return (
        f"{path} repaints, by its name: it wants -1, below black, where the picture is repainted, which no"
        f" file has; in Python, give Control({name!r}, hint) with -3 there"
    )


def _opened(path: Path, part: Part) -> _ControlNet:
    if not path.exists():
        raise BadCheckpoint(f"{path} does not exist; {remedy_for_address(path) or f'give {KINDS}'}")
    if not path.is_dir():
        tensors, settings = _named_by_diffusers(path), config_beside(path, part)
        return _ControlNet(settings, tensors, (*([path.with_name(CONFIG)] if settings else []), path))
    settings, stored, files = network_in(path, "controlnet", part.stem)
    _refuse_others(path, stored.tensors)
    return _ControlNet(settings, stored.tensors, files, stored.remark)


def _named_by_diffusers(path: Path) -> Mapping[str, Weights]:
    """Return the tensors of a file; one that holds a whole model has more than the ControlNet's."""
    tensors = read_contents(path).tensors
    _refuse_others(path, tensors)
    require_equal_without(str(path), tensors, [WRAPPER])
    for prefix in (WRAPPER, ""):
        if f"{prefix}{HINT}.0.weight" in tensors:
            return control_tensors(NetworkTensors.of(str(path), tensors, prefix))
    if f"{EMBEDDING}.conv_in.weight" not in tensors:
        raise BadCheckpoint(f"{path} is no ControlNet; give {KINDS}")
    return tensors


def _refuse_others(path: Path, tensors: Mapping[str, Weights]) -> None:
    for name, what in OTHERS.items():
        if name in tensors:
            raise BadCheckpoint(f"{path} {what}, which is not supported; give {KINDS}")


def _config_by_shapes(where: str, tensors: Mapping[str, Weights], unet: UNetConfig) -> ControlNetConfig:
    """Return the configuration of tensors; heads, norms and sinusoids, which no shape tells, are the U-Net's.

    Raises BadCheckpoint, naming the file `where`, for a file that lacks tensors.
    """
    part = NetworkTensors(where, "", tensors)
    levels = [part.inside(f"down_blocks.{i}.") for i in range(part.count("down_blocks"))]
    attends = tuple(level.has("attentions") for level in levels)
    known: dict[str, Any] = {
        "in_channels": part.shape("conv_in.weight", 4)[1],
        "channels": tuple(level.shape("resnets.0.conv1.weight", 4)[0] for level in levels),
        "resnets": tuple(level.count("resnets") for level in levels),
        "down_attention": attends,
        "up_attention": attends,  # a ControlNet has no way up: as its config.json is read
        "added": _added(part, unet),
        "guidance_width": None,
        "middle": True,
        "hint_widths": tuple(_hint_widths(part.inside(f"{EMBEDDING}."))),
    }
    known |= _attention(part.inside("mid_block."), levels, unet)
    return ControlNetConfig(**{f.name: getattr(unet, f.name) for f in fields(UNetConfig)} | known)


def _attention(middle: NetworkTensors, levels: Sequence[NetworkTensors], unet: UNetConfig) -> dict[str, Any]:
    """Return the settings of a ControlNet's transformers; levels and the middle may have none."""
    own, *others = (block.inside("attentions.0.") for block in (middle, *levels))
    some = [block for block in (own, *others[::-1]) if block.tensors]
    projection = some[0].tensors.get("proj_in.weight") if some else None
    reads = next((block for block in some if block.has("transformer_blocks")), None)
    width = reads.shape("transformer_blocks.0.attn2.to_k.weight", 2)[1] if reads else unet.context_width
    deepest = others[-1] if others[-1].tensors else own
    return {
        "transformers": tuple(
            each.count("transformer_blocks") if each.tensors else 1 for each in (*others[:-1], deepest)
        ),
        "middle_layers": own.count("transformer_blocks") if own.tensors else None,
        "context_width": width,
        "linear_projection": len(projection.shape) == 2 if projection else unet.linear_projection,
    }


def _added(part: NetworkTensors, unet: UNetConfig) -> AddedWidths | None:
    """Return the widths of what a ControlNet adds to its timestep, with sizes as wide as the U-Net's."""
    if not part.has("add_embedding"):
        return None
    both, size = part.shape("add_embedding.linear_1.weight", 2)[1], unet.added.size if unet.added else 0
    return AddedWidths(both - SIZES * size, size)


def _hint_widths(part: NetworkTensors) -> Iterator[int]:
    """Yield the width of the first layer of a hint, and that of each that halves it."""
    first, channels = part.shape("conv_in.weight", 4)[:2]
    if channels != HINT_CHANNELS:
        raise part.wrong(f"takes hints of {counted(channels, 'channel')}, and {HINT_CHANNELS} are supported")
    yield first
    yield from (part.shape(f"blocks.{i}.weight", 4)[0] for i in range(1, part.count("blocks"), 2))


def _require_fit(name: str, control: ControlNetConfig, unet: UNetConfig, scale: int) -> None:
    """Raise BadCheckpoint, naming both sides, for a ControlNet of another U-Net than the checkpoint's."""
    facts = (
        ("addition_embed_type", *("text_time" if c.added else None for c in (control, unet))),
        ("cross_attention_dim", control.context_width, unet.context_width),
        ("block_out_channels", control.channels, unet.channels),
        ("layers_per_block", control.resnets, unet.resnets),
        ("the width of its pooled text", *(c.added.pooled if c.added else None for c in (control, unet))),
        ("addition_time_embed_dim", *(c.added.size if c.added else None for c in (control, unet))),
        ("in_channels", control.in_channels, unet.out_channels),
    )
    for key, own, wanted in facts:
        if own != wanted:
            raise BadCheckpoint(f"{name} has {key} = {own}, but the U-Net's is {wanted}; they must be equal")
    if control.hint_scale != scale:
        raise BadCheckpoint(
            f"{name} has {counted(control.hint_scale, 'pixel')} along the side of a latent cell"
            f" (conditioning_embedding_out_channels), but the VAE decoder has {scale}; they must be equal"
        )
