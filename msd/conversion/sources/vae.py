"""Replaces a checkpoint's autoencoder by another one, and adds one for previews.

A replacement is a folder that diffusers wrote, or one file: in CompVis's layout, in diffusers', or one of
the tiny autoencoder's own (msd/conversion/sources/tiny.py). A config.json beside a file counts where
diffusers named it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.compvis.part import NetworkTensors
from msd.conversion.sources.compvis.stated_vae import read_stated_vae
from msd.conversion.sources.compvis.vae import decoder_tensors, encoder_tensors, vae_settings
from msd.conversion.sources.diffusers import CONFIG, config_beside, network_in, tensors_of
from msd.conversion.sources.replacement import unwrapped, with_networks
from msd.conversion.sources.tiny import is_tiny, named_by_diffusers, tiny_settings
from msd.conversion.sources.two_names import require_equal_without
from msd.conversion.sources.vae_shapes import settings_by_shapes
from msd.conversion.sources.weight_file import read_contents
from msd.errors import BadCheckpoint, BadConfig
from msd.files.wording import listed
from msd.graph.ir.weights import Weights
from msd.models.families import Component, Part
from msd.models.networks import read_config
from msd.models.vae_config import VaeDecoderConfig, VaeEncoderConfig

COMPVIS = "decoder.up.0.block.0.conv1.weight"
FIRST = "first_stage_model."
WRAPPERS = ("vae.", "model.", "autoencoder.")
DIFFUSERS = "decoder.conv_in.weight"
KINDS = (
    "a folder of diffusers' AutoencoderKL or AutoencoderTiny, a file with the VAE of a Stable Diffusion, "
    "or a TAESD"
)


@dataclass(frozen=True)
class _Vae:
    """An autoencoder: diffusers' settings, and its tensors.

    `tensors` have diffusers' names; `files` are those that were read, by the name to show, and `where` is the
    path that was given. `kept` are the settings that the file does not tell: those of the checkpoint's own
    autoencoder stay.
    """

    where: str
    settings: Mapping[str, Any]
    tensors: Mapping[str, Weights]
    files: Mapping[str, Path]
    remark: str = ""
    kept: tuple[str, ...] = ()


def replace_vae(checkpoint: Checkpoint, paths: Sequence[Path]) -> Checkpoint:
    """Return the checkpoint with the autoencoders at `paths` in place of its own, one after another.

    Each replaces, or adds, the components whose weights it has: a file may have only one half. One of which
    later ones leave nothing is said. Reads only headers. Raises BadConfig for a checkpoint with networks of
    keras-cv; BadCheckpoint, naming the path, for anything else than an autoencoder, and for one that does not
    fit.
    """
    folder = checkpoint.family.decoder.part.folder
    components = [c for c in checkpoint.family.components if c.part.folder == folder]
    given: dict[str, Path] = {}
    for path in paths:
        before, checkpoint = checkpoint.weights, _with(checkpoint, path, components)
        given |= {n: path for n, tensors in checkpoint.weights.items() if tensors is not before.get(n)}
    if unused := dict.fromkeys(path for path in paths if path not in given.values()):
        remark = f"--vae {listed(unused)} is not used: a later --vae replaces all that it has"
        checkpoint = replace(checkpoint, remarks=(*checkpoint.remarks, remark))
    decoder = checkpoint.family.decoder
    if paths and decoder.name not in checkpoint.weights:
        names = listed(paths)
        raise BadCheckpoint(f"{checkpoint.name} has no {decoder.title}, and {names} has none either")
    return checkpoint


def add_preview(checkpoint: Checkpoint, path: Path) -> Checkpoint:
    """Return the checkpoint with the tiny autoencoder at `path` as its preview decoder.

    Raises BadConfig for a family without previews, and what `replace_vae` raises.
    """
    component = checkpoint.family.preview
    if component is None:
        raise BadConfig(f"{checkpoint.family.title} has no preview decoder")
    return _with(checkpoint, path, [component])


def _with(checkpoint: Checkpoint, path: Path, candidates: Sequence[Component]) -> Checkpoint:
    if checkpoint.networks != "msd":
        raise BadConfig(f"{path} cannot replace a network of {checkpoint.networks}; leave out --source")
    vae = _opened(path, candidates[0].part, checkpoint)
    tensors = {c.name: tensors_of(vae.where, c.part, vae.tensors) for c in candidates}
    components = [c for c in candidates if tensors[c.name]]
    if not components:
        raise BadCheckpoint(f"{path} has no weights of the {' or the '.join(c.title for c in candidates)}")
    try:
        configs = {c.name: _config(c, vae, checkpoint) for c in components}
        checkpoint.family.require_fit({**checkpoint.configs, **configs})
    except BadCheckpoint as error:
        raise BadCheckpoint(f"{path} does not fit {checkpoint.name}: {error}") from error
    weights = {c.name: tensors[c.name] for c in components}
    return with_networks(checkpoint, configs, weights, vae.files, vae.remark)


def _config(component: Component, vae: _Vae, checkpoint: Checkpoint) -> Any:
    """Return a component's configuration: from the settings, and what these lack from the checkpoint's own.

    They lack nothing where the checkpoint has no autoencoder: the family's values are then among them.
    """
    if not vae.kept or checkpoint.family.decoder.name not in checkpoint.configs:
        return read_config(component, vae.settings)
    own = checkpoint.configs.get(component.name)
    if not isinstance(own, VaeDecoderConfig | VaeEncoderConfig):
        raise BadCheckpoint(
            "it is an AutoencoderKL without a config.json, and the checkpoint has none like it"
        )
    known = {"scaling_factor": own.scaling_factor, "norm_num_groups": own.groups}
    return read_config(component, {**vae.settings, **{key: known[key] for key in vae.kept}})


def _opened(path: Path, part: Part, checkpoint: Checkpoint) -> _Vae:
    if not path.exists():
        raise BadCheckpoint(f"{path} does not exist; give {KINDS}")
    if path.is_dir():
        return _folder(path, part)
    family = checkpoint.family
    own = getattr(checkpoint.configs.get(family.decoder.name), "scaling_factor", family.scaling_factor)
    opened, settings = _file(path, family.scaling_factor, own), config_beside(path, part)
    if settings is None:
        return opened
    files = {CONFIG: path.with_name(CONFIG), **opened.files}
    return replace(opened, settings=settings, files=files, remark="", kept=())


def _folder(path: Path, part: Part) -> _Vae:
    """Return the autoencoder in a folder that diffusers wrote: its own, or one of a whole checkpoint."""
    settings, stored, files = network_in(path, "vae", part.stem)
    shown = {f"{path.absolute().name}/{file.relative_to(path).as_posix()}": file for file in files}
    return _Vae(where=str(path), settings=settings, tensors=stored.tensors, files=shown, remark=stored.remark)


def _file(path: Path, scaling_factor: float, own: float) -> _Vae:
    """Return the autoencoder in a file, in whichever layout.

    Its latents are scaled as a .yaml beside it says, or else by `scaling_factor`; in diffusers' layout by the
    checkpoint's `own`.
    """
    contents, where = read_contents(path), str(path)
    require_equal_without(where, contents.tensors, (*WRAPPERS, FIRST))
    tensors, files = unwrapped(contents.tensors, WRAPPERS, (COMPVIS, DIFFUSERS)), {path.name: path}
    if is_tiny(tensors):
        tensors = named_by_diffusers(where, tensors)
        return _Vae(where, tiny_settings(where, tensors), tensors, files)
    if COMPVIS in tensors or FIRST + COMPVIS in tensors:
        part = NetworkTensors.of(where, tensors, "" if COMPVIS in tensors else FIRST)
        stated = read_stated_vae(path)
        settings = {"_class_name": "AutoencoderKL", **stated.used(vae_settings(part, scaling_factor))}
        tensors = encoder_tensors(part) | decoder_tensors(part)
        return _Vae(where, settings, tensors, files, remark=stated.remark(scaling_factor))
    if DIFFUSERS in tensors:
        stated = read_stated_vae(path)
        settings = stated.used(settings_by_shapes(where, tensors, scaling_factor))
        kept = ("norm_num_groups", *(["scaling_factor"] if stated.scale is None else []))
        return _Vae(where, settings, tensors, files, remark=stated.remark(own), kept=kept)
    raise BadCheckpoint(f"{path} is no autoencoder; give {KINDS}")
