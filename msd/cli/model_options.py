"""The options of `msd-convert` that add to the checkpoint's networks, or change them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from msd.bounds import MOST_GUIDANCE
from msd.cli import options


def _model(lora: tuple[str, ...], embeddings: tuple[str, ...], **others: Any) -> dict[str, Any]:
    """Return the options' values, keys of `msd.api.ModelOptions`."""
    from msd.sources import embedding as inversions
    from msd.sources import lora as adapters

    files = {"lora": [*map(adapters.parse, lora)], "embeddings": [*map(inversions.parse, embeddings)]}
    return {**files, **others}


model_options = options.gathered(
    "model",
    _model,
    click.option(
        "--lora",
        multiple=True,
        metavar="FILE[:ADAPTER][:SCALE]",
        help="Merge a LoRA, LoHa, LoKr or DoRA into the weights; may be repeated.  [default scale: 1]",
    ),
    click.option(
        "--vae",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="Use this autoencoder in place of SOURCE's, or of none; may be repeated, for two halves.",
    ),
    click.option(
        "--preview-vae",
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="Convert this tiny autoencoder too, to decode previews.",
    ),
    click.option(
        "--embedding",
        "embeddings",
        multiple=True,
        metavar="FILE[:TOKEN]",
        help="Add a textual inversion, a file or an image; may be repeated.  [default: its own token]",
    ),
    click.option(
        "--clip-skip",
        type=click.IntRange(0, 256),
        default=0,
        show_default=True,
        help="Drop the text encoder's last layers; 1 is diffusers' clip_skip=1, AUTOMATIC1111's 2.",
    ),
    click.option(
        "--prompt-chunks",
        type=click.IntRange(1, 16),
        default=1,
        show_default=True,
        metavar="N",
        help="Read prompts of up to N times 75 tokens.",
    ),
    click.option(
        "--scheduler",
        metavar="NAME[:SETTING=VALUE,…]",
        help="The scheduler of the model, for one with a few-step LoRA: lcm, tcd:eta=1, euler or"
        " ddim:timestep_spacing=trailing.  [default: the checkpoint's own]",
    ),
    click.option(
        "--steps",
        type=options.STEPS,
        help="Denoising steps of images by default.  [default: 4 for a few-step model, else 20]",
    ),
    click.option(
        "--guidance",
        type=options.Number(0, MOST_GUIDANCE),
        help="Guidance of images by default.  [default: 1, none, for a few-step model, else 7.5]",
    ),
)
"""The options become the argument `model`, a `msd.api.ModelOptions`."""
