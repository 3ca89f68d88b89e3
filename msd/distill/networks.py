"""The networks of a checkpoint as PyTorch modules: diffusers' U-Net and autoencoder, transformers' CLIP.

Our own readers read the weights, so that every checkpoint that msd-convert takes in diffusers' layout is read
here, whatever files its weights are in.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from msd.distill.levels import Levels, require_prediction
from msd.errors import BadCheckpoint
from msd.files import bounded
from msd.ir.weights import Weights
from msd.runtime.diffusion import Diffusion
from msd.sources.checkpoint import Checkpoint
from msd.sources.diffusers import open_folder

PARTS = "text_encoder", "unet", "vae"
UNUSED_PREFIX = "text_model."
"""Of CLIP's tensors, by the names of some versions of transformers."""


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
    checkpoint = open_folder(folder)
    config = {part: bounded.read_json(folder / part / "config.json") for part in PARTS}
    require_plain(folder, config)
    diffusion = Diffusion.from_config(checkpoint.scheduler)
    require_prediction(diffusion)
    weights = checkpoint.weights
    return Networks(
        checkpoint=checkpoint,
        folder=folder,
        device=device,
        diffusion=diffusion,
        levels=Levels.of(diffusion, device),
        tokenizer=CLIPTokenizer.from_pretrained(folder / "tokenizer"),
        text_encoder=frozen(_clip(config["text_encoder"], weights["text_encoder"])).to(device),
        unet=_filled(UNet2DConditionModel.from_config(config["unet"]), weights["unet"]).to(
            device, memory_format=torch.channels_last
        ),
        vae=frozen(_autoencoder(config["vae"], weights)).to(device),
    )


def require_plain(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise BadCheckpoint for a U-Net or an autoencoder that is not Stable Diffusion's for text to image."""
    if config["vae"].get("_class_name") != "AutoencoderKL":
        raise BadCheckpoint(f"{folder}/vae is no AutoencoderKL; distil with the checkpoint's own autoencoder")
    channels, latents = config["unet"].get("in_channels"), config["vae"].get("latent_channels")
    if channels != latents:
        raise BadCheckpoint(
            f"the U-Net of {folder} takes {channels} channels and its latents have {latents}: models that"
            " repaint images cannot be distilled"
        )
    if config["unet"].get("time_cond_proj_dim") is not None:
        raise BadCheckpoint(f"the U-Net of {folder} takes the guidance scale: it has been distilled already")


def frozen(module: Any) -> Any:
    """Return the module, which no longer learns."""
    return module.requires_grad_(False).eval()


def frozen_copy(module: Any) -> Any:
    """Return a copy of a module that does not learn."""
    return frozen(copy.deepcopy(module))


def _clip(config: Mapping[str, Any], weights: Mapping[str, Weights]) -> Any:
    """Return the text encoder, whose tensors have the names of the installed version of transformers."""
    network = CLIPTextModel(CLIPTextConfig.from_dict(dict(config)))
    own = network.state_dict()
    return _filled(
        network, {name if name in own else UNUSED_PREFIX + name: tensor for name, tensor in weights.items()}
    )


def _autoencoder(config: Mapping[str, Any], weights: Mapping[str, Mapping[str, Weights]]) -> Any:
    parts = {**weights.get("vae_encoder", {}), **weights["vae_decoder"]}
    return _filled(AutoencoderKL.from_config(config), parts, unused=("encoder.", "quant_conv."))


def _filled(network: Any, weights: Mapping[str, Weights], unused: tuple[str, ...] = ()) -> Any:
    """Return the network with these weights; only tensors with the prefixes `unused` may be missing."""
    state = {name: torch.from_numpy(tensor.load().astype("float32")) for name, tensor in weights.items()}
    missing, unknown = network.load_state_dict(state, strict=False)
    missing = [name for name in missing if not name.startswith(unused) and not name.endswith("position_ids")]
    if missing or unknown:
        raise BadCheckpoint(
            f"{type(network).__name__} lacks the tensors {missing[:3]} and does not know {unknown[:3]}"
        )
    return network
