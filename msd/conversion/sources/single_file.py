"""A Stable Diffusion in one .safetensors or .ckpt file, in CompVis' and Stability AI's layout."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from msd.conversion.sources import pickled, safetensors
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.clip_tokenizer import PAD_1, PAD_2, clip_tokenizer
from msd.conversion.sources.compvis.ema import plain_unet
from msd.conversion.sources.compvis.part import NetworkTensors
from msd.conversion.sources.compvis.prediction import VELOCITY, cells, prediction
from msd.conversion.sources.compvis.refusal import refuse_other_kinds
from msd.conversion.sources.compvis.text import text_part, text_settings
from msd.conversion.sources.compvis.unet import unet_settings, unet_tensors
from msd.conversion.sources.compvis.vae import decoder_tensors, encoder_tensors, vae_settings
from msd.conversion.sources.stored import Contents
from msd.errors import BadCheckpoint
from msd.models.families.stable_diffusion import STABLE_DIFFUSION, VAE_ENCODER
from msd.models.networks import read_configs

ONE_INPUT = 4
"""The input channels of a U-Net that takes nothing but the latent."""


def open_single_file(path: Path, prediction_type: str | None = None) -> Checkpoint:
    """Return the checkpoint in the file at `path`, of whose weights only the headers are read.

    The configuration follows from the shapes. `prediction_type` is "epsilon" or "v_prediction", None for the
    file's own (msd/conversion/sources/compvis/prediction.py). Raises BadCheckpoint, which names the file and
    its fault, or the kind of model that it is instead.
    """
    contents = _contents(path)
    tensors = plain_unet(contents.tensors)
    refuse_other_kinds(path, tensors)
    text, second = text_part(NetworkTensors.of(str(path), tensors, "cond_stage_model."))
    unet = NetworkTensors.of(str(path), tensors, "model.diffusion_model.")
    vae = NetworkTensors.of(str(path), tensors, "first_stage_model.")
    settings = {
        "text_encoder": text_settings(text, second),
        "unet": unet_settings(unet, second),
        "vae": vae_settings(vae),
    }
    ambiguous = second and settings["unet"]["in_channels"] == ONE_INPUT
    predicted = prediction(path, contents.metadata, prediction_type, ambiguous)
    scale = 2 ** (len(settings["vae"]["block_out_channels"]) - 1)
    settings["unet"]["sample_size"] = cells(contents.metadata, second and predicted.kind == VELOCITY, scale)
    weights = {
        "text_encoder": text.tensors,
        "vae_encoder": encoder_tensors(vae),
        "unet": unet_tensors(unet),
        "vae_decoder": decoder_tensors(vae),
    }
    if not VAE_ENCODER.part.is_among(weights["vae_encoder"]):
        del weights["vae_encoder"]
    return Checkpoint(
        kind="single file",
        name=path.stem,
        family=STABLE_DIFFUSION,
        configs=_configs(path, settings, absent={*STABLE_DIFFUSION.names} - {*weights}),
        weights=weights,
        tokenizer=clip_tokenizer(PAD_2 if second else PAD_1),
        scheduler=predicted.scheduler(),
        files={path.name: path},
        weight_files=dict.fromkeys(weights, (path.name,)),
    )


def _contents(path: Path) -> Contents:
    if path.suffix.lower() != ".safetensors":
        return pickled.read_contents(path)
    contents = safetensors.read_contents(path)
    step = contents.tensors.get("global_step")
    if step is None or step.size != 1:
        return contents
    return Contents(contents.tensors, {**contents.metadata, "global_step": f"{step.load().item():.0f}"})


def _configs(path: Path, settings: dict[str, dict[str, object]], absent: Collection[str]) -> dict[str, Any]:
    """Return the configuration of each component but those `absent`, from diffusers' settings by folder."""
    try:
        return read_configs(STABLE_DIFFUSION, settings, absent)
    except BadCheckpoint as error:
        raise BadCheckpoint(f"{path} would be refused as a diffusers folder too: {error}") from error
