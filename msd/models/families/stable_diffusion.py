"""Stable Diffusion 1.x and 2.x: one CLIP text encoder, one U-Net, and an autoencoder.

Latent diffusion after Rombach et al. (2022, arXiv 2112.10752); the components are those that diffusers'
StableDiffusionPipeline loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msd.errors import BadCheckpoint
from msd.models.families.calls import Call, Input, Output, latent, numbers, pixels, sinusoids, tokens, value
from msd.models.families.family import Architecture, Component, Family, Part

TINY_ENCODER = Architecture(
    config="msd.models.tiny_config:TinyEncoderConfig",
    network="msd.models.tiny_autoencoder:tiny_encoder",
)
"""Its output is `latent`, for it computes no distribution."""

TINY_DECODER = Architecture(
    config="msd.models.tiny_config:TinyDecoderConfig",
    network="msd.models.tiny_autoencoder:tiny_decoder",
)

TEXT_ENCODER = Component(
    name="text_encoder",
    title="text encoder",
    part=Part("text_encoder", stem="model"),
    config="msd.models.config:TextEncoderConfig",
    network="msd.models.text_encoder:text_encoder",
    lookup="token_embedding",
)
VAE_ENCODER = Component(
    name="vae_encoder",
    title="VAE encoder",
    part=Part("vae", prefixes=("encoder.", "quant_conv.")),
    config="msd.models.vae_config:VaeEncoderConfig",
    network="msd.models.vae_encoder:vae_encoder",
    option="--also vae_encoder",
    alternatives={"AutoencoderTiny": TINY_ENCODER},
)
UNET = Component(
    name="unet",
    title="U-Net",
    part=Part("unet"),
    config="msd.models.config:UNetConfig",
    network="msd.models.unet:unet",
    first_half="unet_first",
    prunable=True,
)
PREVIEW_DECODER = Component(
    name="preview_decoder",
    title="preview decoder",
    part=Part("preview_vae", prefixes=("decoder.",)),
    config=TINY_DECODER.config,
    network=TINY_DECODER.network,
    option="--preview-vae PATH",
)
VAE_DECODER = Component(
    name="vae_decoder",
    title="VAE decoder",
    part=Part("vae", prefixes=("decoder.", "post_quant_conv.")),
    config="msd.models.vae_config:VaeDecoderConfig",
    network="msd.models.vae_decoder:vae_decoder",
    alternatives={"AutoencoderTiny": TINY_DECODER},
)

UPSCALER = Component(
    name="upscaler",
    title="upscaler",
    part=Part("upscaler"),
    config="msd.models.upscaler_config:RrdbConfig",
    network="msd.models.upscaler:rrdb",
    option="--upscaler PATH",
    alternatives={
        "SRVGGNetCompact": Architecture(
            config="msd.models.upscaler_config:CompactConfig", network="msd.models.upscaler:compact"
        )
    },
)

GUIDANCE = "guidance_embedding"
"""The input of a U-Net that takes the guidance scale."""

ENCODED = "initial_latent", "masked_latent"
"""The latents of an image to begin from, and of the same without what is repainted."""

EDITED = "edited_latent"
"""The latents, as the encoder has them, of an image to edit (InstructPix2Pix, arXiv 2211.09800)."""

CALLS = (
    Call(
        TEXT_ENCODER.name,
        "once",
        inputs=(Input("tokens", (tokens(),)),),
        outputs=(Output("context", "context", "hidden states"),),
    ),
    *(
        Call(
            VAE_ENCODER.name,
            "once",
            inputs=(Input("image", (pixels(image),)),),
            outputs=(Output(name, "moments", "moments"), Output(name, "latent", "latents")),
        )
        for name, image in zip(ENCODED, ("image", "masked image"), strict=True)
    ),
    Call(
        VAE_ENCODER.name,
        "once",
        inputs=(Input("image", (pixels("image"),)),),
        outputs=(
            Output(EDITED, "moments", "means", guides=True),
            Output(EDITED, "latent", "tensor", guides=True),
        ),
    ),
    Call(
        UNET.name,
        "step",
        inputs=(
            Input("latent", (latent(scaled=True),)),
            Input("latent", (latent(scaled=True), pixels("mask"), value("masked_latent"))),
            Input("latent", (latent(scaled=True), value(EDITED))),
            Input("timestep", (numbers("timestep"),)),
            Input("timestep_embedding", (sinusoids("timestep"),)),
            Input("context", (value("context"),)),
            Input(GUIDANCE, (sinusoids("guidance", cosine_first=False, frequency_shift=1.0),)),
        ),
        outputs=(Output("noise", "noise", "prediction"),),
    ),
    Call(
        PREVIEW_DECODER.name,
        "preview",
        inputs=(Input("latent", (latent(),)),),
        outputs=(Output("preview", "image", "image"),),
    ),
    Call(
        VAE_DECODER.name,
        "end",
        inputs=(Input("latent", (latent(),)),),
        outputs=(Output("image", "image", "image"),),
    ),
    Call(
        UPSCALER.name,
        "end",
        inputs=(Input("image", (pixels("decoded image"),)),),
        outputs=(Output("enlarged", "enlarged", "enlarged"),),
    ),
)


def require_fit(configs: Mapping[str, Any]) -> None:
    """Raise BadCheckpoint for configurations, by component, that cannot work together."""
    text_encoder, unet = configs[TEXT_ENCODER.name], configs[UNET.name]
    if unet.added is not None:
        raise BadCheckpoint(
            "unet/config.json says addition_embed_type = text_time, as Stable Diffusion XL's, and the other"
            " networks are those of Stable Diffusion 1.x or 2.x"
        )
    if text_encoder.width != unet.context_width:
        raise BadCheckpoint(
            f"unet/config.json says cross_attention_dim = {unet.context_width}, but text_encoder/config.json "
            f"says hidden_size = {text_encoder.width}; they must be equal"
        )
    for component in (VAE_ENCODER, PREVIEW_DECODER, VAE_DECODER):
        if component.name in configs:
            require_same_latents(unet, component, configs[component.name].latent_channels)
    encoder, decoder = configs.get(VAE_ENCODER.name), configs.get(VAE_DECODER.name)
    if encoder is not None and decoder is not None and encoder.scale != decoder.scale:
        raise BadCheckpoint(
            f"the {VAE_ENCODER.title} has {encoder.scale} pixels along the side of a latent cell, but the "
            f"{VAE_DECODER.title} has {decoder.scale}; they must be equal"
        )


def require_same_latents(unet: Any, component: Component, channels: int) -> None:
    """Raise BadCheckpoint where an autoencoder's latents have other channels than the U-Net's."""
    if channels != unet.out_channels:
        folder = component.part.folder
        raise BadCheckpoint(
            f"unet/config.json says out_channels = {unet.out_channels}, but {folder}/config.json says "
            f"latent_channels = {channels}; they must be equal"
        )


def needs(configs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the encoder for a U-Net that takes an image beside its latents, as those for inpainting do."""
    more = configs[UNET.name].in_channels > configs[VAE_DECODER.name].latent_channels
    return (VAE_ENCODER.name,) if more else ()


STABLE_DIFFUSION = Family(
    name="stable-diffusion",
    title="Stable Diffusion 1.x and 2.x",
    components=(TEXT_ENCODER, VAE_ENCODER, UNET, PREVIEW_DECODER, VAE_DECODER, UPSCALER),
    calls=CALLS,
    pipelines=(
        "StableDiffusionPipeline",
        "StableDiffusionImg2ImgPipeline",
        "StableDiffusionInpaintPipeline",
        "StableDiffusionInstructPix2PixPipeline",
        "LatentConsistencyModelPipeline",
    ),
    require_fit=require_fit,
    needs=needs,
    scaling_factor=0.18215,
    takes_controls=True,
)
