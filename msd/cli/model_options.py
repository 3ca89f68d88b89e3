"""The options of `msd-convert` that add to the checkpoint's networks, or change them."""

from __future__ import annotations

from typing import Any

import click

from msd.cli import options


def _changes(lora: tuple[str, ...], embeddings: tuple[str, ...], **numbers: int) -> dict[str, Any]:
    """Return the options' values as arguments of `msd.api.conversion_settings`."""
    from msd.sources import embedding as inversions
    from msd.sources import lora as adapters

    files = {"lora": [*map(adapters.parse, lora)], "embeddings": [*map(inversions.parse, embeddings)]}
    return {**files, **numbers}


model_options = options.gathered(
    "changes",
    _changes,
    click.option(
        "--lora",
        multiple=True,
        metavar="FILE[:SCALE]",
        help="Merge a LoRA (.safetensors) into the weights; may be repeated.  [default scale: 1]",
    ),
    click.option(
        "--embedding",
        "embeddings",
        multiple=True,
        metavar="FILE[:TOKEN]",
        help="Add a textual inversion (.safetensors, .pt, .bin); may be repeated.  [default: its own token]",
    ),
    click.option(
        "--clip-skip",
        type=click.IntRange(0),
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
)
"""The options become the argument `changes`, keys of `msd.api.ConversionOptions`."""
