"""Stable Diffusion XL in one file: its text encoders, and what follows from them."""

from __future__ import annotations

from msd.conversion.sources.clip_tokenizer import PAD_1, PAD_2, clip_tokenizer
from msd.conversion.sources.compvis.part import NetworkTensors
from msd.conversion.sources.compvis.text import projected_text, text_part, text_settings
from msd.conversion.sources.compvis.texts import Texts
from msd.models.families.calls import TOKENIZER
from msd.models.families.stable_diffusion_xl import (
    STABLE_DIFFUSION_XL,
    TEXT_ENCODER,
    TEXT_ENCODER_2,
    TOKENIZER_2,
)

PIXELS = 1024
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
    first, _ = text_part(part.inside("0."))
    second, of_second = projected_text(part.inside("1."))
    return Texts(
        family=STABLE_DIFFUSION_XL,
        settings={
            TEXT_ENCODER.part.folder: text_settings(first, False),
            TEXT_ENCODER_2.part.folder: of_second,
        },
        weights={TEXT_ENCODER.name: first.tensors, TEXT_ENCODER_2.name: second.tensors},
        tokenizers={TOKENIZER: clip_tokenizer(PAD_1), TOKENIZER_2: clip_tokenizer(PAD_2)},
        head_widths=True,
        pooled=of_second["projection_dim"],
        scheduler=SCHEDULER,
        pixels=PIXELS,
        velocity_pixels=PIXELS,
    )
