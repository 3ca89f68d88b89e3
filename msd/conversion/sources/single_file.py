"""A Stable Diffusion 1.x, 2.x or XL in one file, in CompVis' and Stability AI's layout."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from msd.conversion.few_steps import few_steps_told
from msd.conversion.sources.checkpoint import SCHEDULER, Checkpoint
from msd.conversion.sources.clip_tokenizer import PAD_1, PAD_2, clip_tokenizer
from msd.conversion.sources.compvis.ema import plain_unet
from msd.conversion.sources.compvis.original_config import read_original_config
from msd.conversion.sources.compvis.part import NetworkTensors
from msd.conversion.sources.compvis.prediction import VELOCITY, cells, prediction
from msd.conversion.sources.compvis.refusal import XL, is_xl, refuse_other_kinds, unmerged
from msd.conversion.sources.compvis.stored_schedule import schedule_remarks
from msd.conversion.sources.compvis.text import text_part, text_settings
from msd.conversion.sources.compvis.texts import Texts
from msd.conversion.sources.compvis.unet import unet_settings, unet_tensors
from msd.conversion.sources.compvis.vae import decoder_tensors, encoder_tensors, vae_settings
from msd.conversion.sources.compvis.xl import xl_texts
from msd.conversion.sources.stored import Contents
from msd.conversion.sources.two_names import require_equal_without
from msd.conversion.sources.weight_file import read_contents
from msd.errors import BadCheckpoint
from msd.graph.ir.weights import Weights
from msd.models.families import Family
from msd.models.families.calls import TOKENIZER
from msd.models.families.stable_diffusion import STABLE_DIFFUSION, TEXT_ENCODER, VAE_DECODER, VAE_ENCODER
from msd.models.families.stable_diffusion import UNET as UNET_COMPONENT
from msd.models.networks import read_configs

TEXT, UNET, VAE = "cond_stage_model.", "model.diffusion_model.", "first_stage_model."
ONE_INPUT = 4
"""The input channels of a U-Net that takes nothing but the latent."""

USUAL_SCALE = 8
"""Pixels along the side of a latent cell, where the file has no autoencoder to count them."""


def open_single_file(
    path: Path, prediction_type: str | None = None, vae_is_given: bool = False
) -> Checkpoint:
    """Return the checkpoint in the file at `path`, of whose weights only the headers are read.

    The configuration follows from the shapes. `prediction_type` is "epsilon" or "v_prediction", None for the
    file's own (msd/conversion/sources/compvis/prediction.py). Where `vae_is_given`, for the caller has
    another one, the file may lack its autoencoder. Raises BadCheckpoint, which names the file and its fault,
    or the kind of model that it is instead.
    """
    contents, original = _contents(path), read_original_config(path.with_suffix(".yaml"))
    tensors = plain_unet(contents.tensors)
    require_equal_without(str(path), tensors, (TEXT, UNET, VAE))
    refuse_other_kinds(path, tensors, {VAE} if vae_is_given else set())
    texts = _texts_of(path, tensors)
    unet, vae = (NetworkTensors.of(str(path), tensors, each) for each in (UNET, VAE))
    by_shapes = unet_settings(unet, texts.head_widths, texts.pooled)
    of_unet, of_heads = original.structure.with_heads(by_shapes)
    settings, scale = {**texts.settings, UNET_COMPONENT.part.folder: of_unet}, USUAL_SCALE
    weights = {**texts.weights, UNET_COMPONENT.name: unet_tensors(unet)}
    if vae.has("decoder") or not vae_is_given:
        settings[VAE_DECODER.part.folder] = of_vae = vae_settings(vae, original.scaling_factor(texts.family))
        scale = 2 ** (len(of_vae["block_out_channels"]) - 1)
        weights |= _halves(vae)
    original.structure.require_same(of_unet, None if vae_is_given else settings[VAE_DECODER.part.folder])
    ambiguous = texts.ambiguous and of_unet["in_channels"] == ONE_INPUT
    predicted = prediction(path, contents, original, prediction_type, ambiguous)
    usual = texts.velocity_pixels if predicted.kind == VELOCITY else texts.pixels
    scheduler = predicted.scheduler({**texts.scheduler, **original.schedule})
    of_unet["sample_size"] = cells(contents.metadata, usual, scale)
    return Checkpoint(
        kind="single file",
        name=path.stem,
        family=texts.family,
        configs=_configs(path, texts.family, settings, absent={*texts.family.names} - {*weights}),
        weights={name: weights[name] for name in texts.family.names if name in weights},
        tokenizers=texts.tokenizers,
        scheduler=scheduler,
        files={path.name: path},
        weight_files=dict.fromkeys(weights, (path.name,)),
        few_steps=few_steps_told(path.stem, contents.metadata),
        remarks=(
            *predicted.remarks,
            *of_heads,
            *original.remarks(texts.scheduler, None if vae_is_given else texts.family),
            *schedule_remarks(contents.tensors, scheduler),
            *unmerged(contents.tensors),
        ),
    )


def _texts_of(path: Path, tensors: Mapping[str, Weights]) -> Texts:
    prefix, read = (XL, xl_texts) if is_xl(tensors) else (TEXT, _texts)
    return read(NetworkTensors.of(str(path), tensors, prefix))


def _texts(part: NetworkTensors) -> Texts:
    """Return the text encoder of a Stable Diffusion 1.x or 2.x."""
    text, second = text_part(part)
    return Texts(
        family=STABLE_DIFFUSION,
        settings={TEXT_ENCODER.part.folder: text_settings(text, second)},
        weights={TEXT_ENCODER.name: text.tensors},
        tokenizers={TOKENIZER: clip_tokenizer(PAD_2 if second else PAD_1)},
        scheduler=SCHEDULER,
        head_widths=second,
        velocity_pixels=768 if second else 512,
        ambiguous=second,
    )


def _halves(vae: NetworkTensors) -> dict[str, dict[str, Weights]]:
    """Return the tensors of the decoder and, where the file has it, of the encoder."""
    encoder = encoder_tensors(vae)
    both = {VAE_ENCODER.name: encoder} if VAE_ENCODER.part.is_among(encoder) else {}
    return {**both, VAE_DECODER.name: decoder_tensors(vae)}


def _contents(path: Path) -> Contents:
    contents = read_contents(path)
    step = contents.tensors.get("global_step")
    if step is None or step.size != 1:
        return contents
    return Contents(contents.tensors, {**contents.metadata, "global_step": f"{step.load().item():.0f}"})


def _configs(
    path: Path, family: Family, settings: dict[str, dict[str, Any]], absent: Collection[str]
) -> dict[str, Any]:
    """Return the configuration of each component but those `absent`, from diffusers' settings by folder."""
    try:
        return read_configs(family, settings, absent)
    except BadCheckpoint as error:
        raise BadCheckpoint(f"{path} would be refused as a diffusers folder too: {error}") from error
