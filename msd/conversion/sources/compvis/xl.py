"""Stable Diffusion XL in one file: its text encoders, and what its U-Net is given beside the text."""

from __future__ import annotations

from typing import Any

from msd.conversion.sources.clip_tokenizer import PAD_1, PAD_2, clip_tokenizer
from msd.conversion.sources.compvis.part import NetworkTensors
from msd.conversion.sources.compvis.refusal import XL
from msd.conversion.sources.compvis.text import projected_text, text_part, text_settings
from msd.conversion.sources.compvis.texts import Texts
from msd.models.config import SIZES
from msd.models.families.stable_diffusion_xl import STABLE_DIFFUSION_XL, TEXT_ENCODER, TEXT_ENCODER_2

PIXELS = 1024
SCALING_FACTOR = 0.13025
"""Of the latents; that of Stable Diffusion 1.x and 2.x is another."""

SCHEDULER = {
    "_class_name": "EulerDiscreteScheduler",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "interpolation_type": "linear",
    "num_train_timesteps": 1000,
    "steps_offset": 1,
    "timestep_spacing": "leading",
    "use_karras_sigmas": False,
}
"""The scheduler of Stable Diffusion XL base; it lacks `prediction_type`."""


def xl_texts(part: NetworkTensors) -> Texts:
    """Return both text encoders; raises BadCheckpoint where one is another than Stable Diffusion XL's."""
    first, _ = text_part(NetworkTensors(part.where, f"{XL}0.", _inside(part, "0.")))
    second, of_second = projected_text(NetworkTensors(part.where, f"{XL}1.", _inside(part, "1.")))
    return Texts(
        family=STABLE_DIFFUSION_XL,
        settings={
            TEXT_ENCODER.part.folder: text_settings(first, False),
            TEXT_ENCODER_2.part.folder: of_second,
        },
        weights={TEXT_ENCODER.name: first.tensors, TEXT_ENCODER_2.name: second.tensors},
        tokenizers={"tokenizer": clip_tokenizer(PAD_1), "tokenizer_2": clip_tokenizer(PAD_2)},
        head_widths=True,
    )


def size_settings(unet: NetworkTensors, texts: Texts) -> dict[str, Any]:
    """Return the settings of the U-Net's conditions beside the text, in diffusers' config.json."""
    both = unet.shape("label_emb.0.0.weight", 2)[1]
    pooled = texts.settings[TEXT_ENCODER_2.part.folder]["projection_dim"]
    return {
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": (both - pooled) // SIZES,
        "projection_class_embeddings_input_dim": both,
    }


def _inside(part: NetworkTensors, prefix: str) -> dict[str, Any]:
    return dict(NetworkTensors.of(part.where, part.tensors, prefix).tensors)
