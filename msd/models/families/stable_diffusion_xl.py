"""Stable Diffusion XL: two CLIP text encoders, a U-Net that is told the image's sizes, and an autoencoder.

Podell et al., "SDXL" (2023, arXiv 2307.01952); the components are those that diffusers'
StableDiffusionXLPipeline loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msd.errors import BadCheckpoint
from msd.models.families.calls import Call, Input, Output, latent, numbers, sinusoids, tokens, value
from msd.models.families.family import Component, Family, Part
from msd.models.families.stable_diffusion import (
    CALLS,
    GUIDANCE,
    PREVIEW_DECODER,
    UNET,
    UPSCALER,
    VAE_DECODER,
    VAE_ENCODER,
    require_same_latents,
)

TOKENIZER_2 = "tokenizer_2"
"""Pads with another token than the first."""

CONFIGS, NETWORKS = "msd.models.sdxl_text_config", "msd.models.sdxl_text_encoders"

TEXT_ENCODER = Component(
    name="text_encoder",
    title="text encoder",
    part=Part("text_encoder", stem="model"),
    config=f"{CONFIGS}:FirstEncoderConfig",
    network=f"{NETWORKS}:first_encoder",
    lookup="token_embedding",
)
TEXT_ENCODER_2 = Component(
    name="text_encoder_2",
    title="second text encoder",
    part=Part("text_encoder_2", stem="model"),
    config=f"{CONFIGS}:SecondEncoderConfig",
    network=f"{NETWORKS}:second_encoder",
    lookup="token_embedding_2",
)

OF_PROMPTS = (
    Call(
        TEXT_ENCODER.name,
        "once",
        inputs=(Input("tokens", (tokens(),)),),
        outputs=(Output("context", "context", "hidden states", zero_if_absent=True),),
    ),
    Call(
        TEXT_ENCODER_2.name,
        "once",
        inputs=(Input("tokens", (tokens(TOKENIZER_2),)),),
        outputs=(
            Output("context_2", "context", "hidden states", zero_if_absent=True),
            Output("text_embeds", "text_embeds", "vector", zero_if_absent=True),
        ),
    ),
)
OF_STEPS = Call(
    UNET.name,
    "step",
    inputs=(
        Input("latent", (latent(scaled=True),)),
        Input("timestep", (numbers("timestep"),)),
        Input("timestep_embedding", (sinusoids("timestep"),)),
        Input("context", (value("context"), value("context_2"))),
        Input("text_embeds", (value("text_embeds"),)),
        Input("time_ids_embedding", (sinusoids("sizes"),)),
        Input(GUIDANCE, (sinusoids("guidance", cosine_first=False, frequency_shift=1.0),)),
    ),
    outputs=(Output("noise", "noise", "prediction"),),
)


def _calls() -> tuple[Call, ...]:
    """Return the calls, those of the autoencoder as in Stable Diffusion."""
    of_images = [call for call in CALLS if call.component == VAE_ENCODER.name]
    after = [call for call in CALLS if call.when in ("preview", "end")]
    return (*OF_PROMPTS, *of_images, OF_STEPS, *after)


def require_fit(configs: Mapping[str, Any]) -> None:
    """Raise BadCheckpoint for configurations, by component, that cannot work together."""
    first, second, unet = (configs[each.name] for each in (TEXT_ENCODER, TEXT_ENCODER_2, UNET))
    if unet.added is None:
        raise BadCheckpoint(
            "unet/config.json says addition_embed_type = None, and the U-Net of Stable Diffusion XL has"
            " text_time"
        )
    if not unet.cosine_first or unet.frequency_shift:
        raise BadCheckpoint(
            "unet/config.json says that sinusoids begin with sines, or shift their frequencies"
            " (flip_sin_to_cos, freq_shift); those of Stable Diffusion XL's sizes do not"
        )
    _require_equal(
        ("unet", "cross_attention_dim", unet.context_width),
        ("text_encoder and text_encoder_2", "hidden_size together", first.width + second.width),
    )
    _require_equal(
        ("unet", "projection_class_embeddings_input_dim, less six sizes,", unet.added.pooled),
        ("text_encoder_2", "projection_dim", second.pooled),
    )
    for component in (VAE_ENCODER, PREVIEW_DECODER, VAE_DECODER):
        if component.name in configs:
            require_same_latents(unet, component, configs[component.name].latent_channels)


def _require_equal(one: tuple[str, str, int], other: tuple[str, str, int]) -> None:
    if one[2] != other[2]:
        (folder, key, number), (beside, its_key, wanted) = one, other
        raise BadCheckpoint(
            f"{folder}/config.json says {key} = {number}, but {beside} say {its_key} = {wanted}; they must be"
            " equal"
        )


STABLE_DIFFUSION_XL = Family(
    name="stable-diffusion-xl",
    title="Stable Diffusion XL",
    components=(TEXT_ENCODER, TEXT_ENCODER_2, VAE_ENCODER, UNET, PREVIEW_DECODER, VAE_DECODER, UPSCALER),
    calls=_calls(),
    pipelines=("StableDiffusionXLPipeline", "StableDiffusionXLImg2ImgPipeline"),
    require_fit=require_fit,
    index={"force_zeros_for_empty_prompt": True, "requires_aesthetics_score": False},
    scaling_factor=0.13025,
    overflowing=(VAE_DECODER.name,),
    takes_controls=True,
)
