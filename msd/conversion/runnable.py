"""What the runtime can feed to a model's networks: conversion asks here, so that what converts can run.

    tokens       of every text encoder: as many as the tokenizer gives, ids below the rows of the table, and
                 the end of a prompt where a state is pooled
    latents      of the denoiser: the decoder's channels, and beside them one of `BESIDE_LATENTS`
    images       of the encoder and both decoders: `IMAGE_CHANNELS`
    steps        a table of the checkpoint's scheduler (msd/run/runtime/scheduler.py)

Text encoders whose table has more rows than the tokenizer has tokens run: no id leads to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msd.conversion.schedule import other_noise
from msd.conversion.sources.added_tokens import read_tokenizer
from msd.conversion.sources.checkpoint import Checkpoint
from msd.errors import BadCheckpoint, BadConfig
from msd.files.wording import counted, listed
from msd.models.families import Family
from msd.models.sdxl_text_config import OLD_END
from msd.run.runtime.scheduler import insisted_settings, make_scheduler, name_of
from msd.run.runtime.tokenizer import Tokenizer
from msd.run.runtime.tokenizer_files import LENGTH

BESIDE_LATENTS: Mapping[str, Callable[[int], int]] = {
    "the latents alone": lambda latents: 0,
    "a mask and the masked image too, for inpainting": lambda latents: 1 + latents,
    "an image to edit, as InstructPix2Pix's does": lambda latents: latents,
}
"""What the runtime has for a denoiser beside the latents: how many channels for so many of the latents."""

UNKNOWN_BESIDE: Mapping[str, Callable[[int], int]] = {
    "a depth map, as Stable Diffusion 2's depth-to-image does": lambda latents: 1,
    "a small image to enlarge, as the 4x upscaler's does": lambda latents: 3,
}
"""What denoisers of other pipelines take beside the latents, which the runtime does not have."""

IMAGE_CHANNELS = 3


def require_runnable(checkpoint: Checkpoint, components: Iterable[str], steps: int) -> None:
    """Raise BadCheckpoint where the files of these components could not generate images in so many steps."""
    for objection in _objections(checkpoint, components, steps):
        raise BadCheckpoint(f"no image could be generated with {checkpoint.name}: {objection}")


def _objections(checkpoint: Checkpoint, components: Iterable[str], steps: int) -> Iterator[str]:
    """Yield why images could not be generated, a clause each."""
    yield from _of_latents(checkpoint)
    for name, files in checkpoint.tokenizers.items():
        yield from _of_tokens(checkpoint, name, read_tokenizer(files))
    yield from _of_images(checkpoint, components)
    yield from _of_steps(checkpoint, steps)


def _of_latents(checkpoint: Checkpoint) -> Iterator[str]:
    denoiser, decoder = checkpoint.family.denoiser, checkpoint.family.decoder
    channels = getattr(checkpoint.configs[denoiser.name], "in_channels", None)
    latents = getattr(checkpoint.configs[decoder.name], "latent_channels", None)
    if channels is None or latents is None:
        return
    widths = {*_widths(checkpoint.family, latents)}
    beside = {latents + count(latents): what for what, count in BESIDE_LATENTS.items()}
    possible = {count: what for count, what in beside.items() if count in widths}
    if channels in possible:
        return
    unknown = {latents + count(latents): what for what, count in UNKNOWN_BESIDE.items()}
    others = [what for count, what in (*unknown.items(), *beside.items()) if count == channels]
    taken = f": beside latents of {latents} {others[0]}" if others else ""
    known = listed((f"{count} ({what})" for count, what in possible.items()), "or")
    yield f"its {denoiser.title} takes {counted(channels, 'channel')}{taken}; {known} are supported"


def _widths(family: Family, latents: int) -> Iterator[int]:
    """Yield how many channels beside and with so many of the latents the family's denoiser can take."""
    for call in (call for call in family.calls if call.component == family.denoiser.name):
        for each in call.inputs:
            if any(source.kind == "latent" for source in each.sources):
                yield sum(1 if source.kind == "pixels" else latents for source in each.sources)


def _of_tokens(checkpoint: Checkpoint, name: str, tokenizer: Tokenizer) -> Iterator[str]:
    largest = max(tokenizer.vocabulary, key=tokenizer.vocabulary.__getitem__)
    ids = tokenizer.vocabulary[largest] + 1
    family = checkpoint.family
    for encoder in (each for each in family.text_encoders if name in family.tokenizers_of(each.name)):
        config: Any = checkpoint.configs.get(encoder.name)
        length, rows = getattr(config, "length", None), getattr(config, "vocabulary", None)
        if length is not None and length != tokenizer.length:
            yield (
                f"its {encoder.title} reads {counted(length, 'token')} at once (max_position_embeddings),"
                f" and its {name} gives {tokenizer.length} (model_max_length, up to {LENGTH});"
                " both must be equal"
            )
        if rows is not None and ids > rows:
            yield (
                f"its {name} has ids up to {ids - 1} ({largest!r}), and the table of its {encoder.title}"
                f" has {counted(rows, 'row')}; each id needs one"
            )
        if getattr(config, "end", OLD_END) not in (OLD_END, tokenizer.end):
            yield (
                f"its {encoder.title} pools the state of the token {config.end} (eos_token_id), and its"
                f" {name} ends prompts with {tokenizer.end}; both must be equal, or the former {OLD_END}"
            )


def _of_images(checkpoint: Checkpoint, components: Iterable[str]) -> Iterator[str]:
    for component in map(checkpoint.family.component, components):
        if component is checkpoint.family.image_encoder:
            key = "in_channels"
        elif component in (checkpoint.family.preview, checkpoint.family.decoder):
            key = "out_channels"
        else:
            continue
        channels = getattr(checkpoint.configs[component.name], key, IMAGE_CHANNELS)
        if channels != IMAGE_CHANNELS:
            images = f"images of {counted(channels, 'channel')}"
            yield f"its {component.title} has {images}; {IMAGE_CHANNELS} are supported"


def _of_steps(checkpoint: Checkpoint, steps: int) -> Iterator[str]:
    if objection := other_noise(checkpoint.scheduler):
        yield objection
        return
    try:
        name_of(checkpoint.scheduler)
    except BadConfig as problem:
        yield str(problem)
        return
    try:
        insisted = insisted_settings(checkpoint.family)
        make_scheduler(checkpoint.scheduler, insisted=insisted).table(steps)
    except BadConfig as problem:
        yield f"{problem}; --scheduler and --steps replace what the checkpoint says"
