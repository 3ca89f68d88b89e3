"""The networks of a checkpoint that is a teacher, and the arithmetic of its diffusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.diffusers import open_folder, read_json
from msd.conversion.sources.formats import require_index
from msd.conversion.sources.old_size import with_usual_size
from msd.errors import BadCheckpoint
from msd.models.families import Component
from msd.models.families.stable_diffusion import UNET
from msd.models.networks import size_of
from msd.run.runtime.diffusion import Diffusion
from msd.run.runtime.scheduler import refuse_thresholding
from msd.train.distill.conditioning import Conditioning
from msd.train.distill.levels import Levels, require_prediction
from msd.train.pytorch.modules import kind_of
from msd.train.pytorch.ports import ports_of, wiring_of


@dataclass(frozen=True)
class Networks:
    """A checkpoint in float32 on one device; all but the U-Net are frozen."""

    checkpoint: Checkpoint
    folder: Path
    device: str
    diffusion: Diffusion
    levels: Levels
    prompts: Conditioning
    unet: Any
    vae: Any

    @property
    def prediction(self) -> str:
        """What the U-Net predicts: "epsilon" or "v_prediction"."""
        return self.diffusion.prediction_type

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of one image's latents."""
        rows, columns = self.checkpoint.configs[self.checkpoint.family.denoiser.name].size
        return self.unet.config.in_channels, rows, columns

    def token_ids(self, prompts: Sequence[str]) -> Any:
        """Return the ids of prompts, int64 (N, tokens), on the CPU."""
        return self.prompts.token_ids(prompts)

    def conditions(self, ids: Any) -> dict[str, Any]:
        """Return what the U-Net takes beside latents and timesteps, by name, for ids (N, tokens)."""
        return self.prompts.of(ids)

    def images(self, latents: Any) -> Any:
        """Return latents (N, C, H, W) as uint8 images (N, height, width, 3) on the CPU."""
        with torch.no_grad():
            decoded = self.vae.decode(latents.float() / self.vae.config.scaling_factor).sample
        return ((decoded.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).cpu()


def open_networks(folder: Path, device: str) -> Networks:
    """Return the networks of a checkpoint in diffusers' layout.

    Raises BadCheckpoint for one that is damaged, that msd-convert could not read, or whose U-Net takes more
    than latents, a timestep and text; BadConfig for a scheduler of another kind of prediction.
    """
    if folder.is_dir():
        require_index(folder)
    checkpoint = open_folder(folder)
    if checkpoint.pruned:
        raise BadCheckpoint(
            f"{folder} was pruned and trained so; distil the whole checkpoint, and recover the student again"
        )
    family = checkpoint.family
    unet, vae = (_config(folder, each) for each in (family.denoiser, family.decoder))
    require_plain(folder, unet, vae)
    diffusion = Diffusion.from_config(checkpoint.scheduler)
    refuse_thresholding(checkpoint.scheduler)
    require_prediction(diffusion)
    return Networks(
        checkpoint=checkpoint,
        folder=folder,
        device=device,
        diffusion=diffusion,
        levels=Levels.of(diffusion, device),
        prompts=_conditions(checkpoint, folder, device),
        unet=_module(checkpoint, folder, family.denoiser).to(device, memory_format=torch.channels_last),
        vae=frozen(_module(checkpoint, folder, family.decoder).to(device)),
    )


def _conditions(checkpoint: Checkpoint, folder: Path, device: str) -> Conditioning:
    from transformers import CLIPTokenizer

    family = checkpoint.family
    size = size_of(family, checkpoint.configs)
    encoders = {}
    for each in family.text_encoders:
        module = frozen(_module(checkpoint, folder, each).to(device))
        encoders[each.name] = partial(kind_of(checkpoint.configs[each.name]).call, module)
    return Conditioning(
        wiring=wiring_of(checkpoint, ports_of(checkpoint, dict.fromkeys(family.required, 1), size)),
        tokenizers={name: CLIPTokenizer.from_pretrained(folder / name) for name in family.tokenizers},
        encoders=encoders,
        pixels=size.pixels,
        device=device,
    )


def require_plain(folder: Path, unet: Mapping[str, Any], vae: Mapping[str, Any]) -> None:
    """Raise BadCheckpoint for a U-Net or an autoencoder of another kind than text to image's."""
    if vae.get("_class_name") != "AutoencoderKL":
        raise BadCheckpoint(f"{folder}/vae is no AutoencoderKL; distil with the checkpoint's own autoencoder")
    if unet.get("in_channels") != vae.get("latent_channels"):
        raise BadCheckpoint(
            f"the U-Net of {folder} takes {unet.get('in_channels')} channels and its latents have"
            f" {vae.get('latent_channels')}: models that repaint or edit images cannot be distilled"
        )
    if unet.get("time_cond_proj_dim") is not None:
        raise BadCheckpoint(f"the U-Net of {folder} takes the guidance scale: it has been distilled already")


def _config(folder: Path, component: Component) -> dict[str, Any]:
    """Return the settings of a component; a U-Net has the size that diffusers' pipelines give it."""
    where = f"{component.part.folder}/config.json"
    settings = read_json(folder, where)
    return with_usual_size(where, settings)[0] if component.name == UNET.name else settings


def _module(checkpoint: Checkpoint, folder: Path, component: Component) -> Any:
    """Return a component's module; the autoencoder's has its encoder too, where the checkpoint has one."""
    family, weights = checkpoint.family, dict(checkpoint.weights[component.name])
    if component is family.decoder and family.image_encoder:
        weights |= checkpoint.weights.get(family.image_encoder.name, {})
    return kind_of(checkpoint.configs[component.name]).module(weights, _config(folder, component))


def frozen(module: Any) -> Any:
    """Return the module, which no longer learns."""
    return module.requires_grad_(False).eval()
