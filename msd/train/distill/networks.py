"""The networks of a checkpoint that is a teacher, and the arithmetic of its diffusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.diffusers import open_folder, read_json
from msd.errors import BadCheckpoint
from msd.models.families import Component
from msd.models.families.stable_diffusion import TEXT_ENCODER, UNET, VAE_DECODER, VAE_ENCODER
from msd.run.runtime.diffusion import Diffusion
from msd.train.distill.levels import Levels, require_prediction
from msd.train.pytorch import modules
from msd.train.pytorch.bundle import require_pytorch_runs


@dataclass(frozen=True)
class Networks:
    """A checkpoint in float32 on one device; all but the U-Net are frozen."""

    checkpoint: Checkpoint
    folder: Path
    device: str
    diffusion: Diffusion
    levels: Levels
    tokenizer: Any
    text_encoder: Any
    unet: Any
    vae: Any

    @property
    def prediction(self) -> str:
        """What the U-Net predicts: "epsilon" or "v_prediction"."""
        return self.diffusion.prediction_type

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of one image's latents."""
        side = self.unet.config.sample_size
        rows, columns = (side, side) if isinstance(side, int) else side
        return self.unet.config.in_channels, rows, columns

    def token_ids(self, prompts: Sequence[str]) -> Any:
        """Return the ids of prompts, int64 (N, tokens), on the CPU."""
        length = self.tokenizer.model_max_length
        ids = self.tokenizer(list(prompts), padding="max_length", max_length=length, truncation=True)
        return torch.tensor(ids["input_ids"])

    def context(self, ids: Any) -> Any:
        """Return what the U-Net attends to, (N, tokens, width), for ids (N, tokens)."""
        with torch.no_grad():
            return self.text_encoder(ids.to(self.device))[0]

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
    from transformers import CLIPTokenizer

    checkpoint = open_folder(folder)
    require_pytorch_runs(checkpoint, "a distilled checkpoint of others converts as it is")
    if checkpoint.pruned:
        raise BadCheckpoint(
            f"{folder} was pruned and trained so; distil the whole checkpoint, and recover the student again"
        )
    config = {part: _config(folder, part) for part in (TEXT_ENCODER, UNET, VAE_DECODER)}
    require_plain(folder, config[UNET], config[VAE_DECODER])
    diffusion = Diffusion.from_config(checkpoint.scheduler)
    require_prediction(diffusion)
    made = {part: _module(checkpoint, part, config[part]).to(device) for part in config}
    return Networks(
        checkpoint=checkpoint,
        folder=folder,
        device=device,
        diffusion=diffusion,
        levels=Levels.of(diffusion, device),
        tokenizer=CLIPTokenizer.from_pretrained(folder / "tokenizer"),
        text_encoder=frozen(made[TEXT_ENCODER]),
        unet=made[UNET].to(memory_format=torch.channels_last),
        vae=frozen(made[VAE_DECODER]),
    )


def require_plain(folder: Path, unet: Mapping[str, Any], vae: Mapping[str, Any]) -> None:
    """Raise BadCheckpoint for a U-Net or an autoencoder that is not Stable Diffusion's for text to image."""
    if vae.get("_class_name") != "AutoencoderKL":
        raise BadCheckpoint(f"{folder}/vae is no AutoencoderKL; distil with the checkpoint's own autoencoder")
    if unet.get("in_channels") != vae.get("latent_channels"):
        raise BadCheckpoint(
            f"the U-Net of {folder} takes {unet.get('in_channels')} channels and its latents have"
            f" {vae.get('latent_channels')}: models that repaint images cannot be distilled"
        )
    if unet.get("time_cond_proj_dim") is not None:
        raise BadCheckpoint(f"the U-Net of {folder} takes the guidance scale: it has been distilled already")


def _config(folder: Path, component: Component) -> dict[str, Any]:
    return read_json(folder, f"{component.part.folder}/config.json")


def _module(checkpoint: Checkpoint, component: Component, config: Mapping[str, Any]) -> Any:
    """Return a component's module; the autoencoder's has its encoder too, where the checkpoint has one."""
    weights = dict(checkpoint.weights[component.name])
    if component is VAE_DECODER:
        weights |= checkpoint.weights.get(VAE_ENCODER.name, {})
    return modules.MODULES[component.name](weights, config)


def frozen(module: Any) -> Any:
    """Return the module, which no longer learns."""
    return module.requires_grad_(False).eval()
