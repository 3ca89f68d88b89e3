"""What of a conversion's settings, and of its scheduler's, has no use or is unlikely: a sentence each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msd.conversion.settings import Settings
from msd.conversion.sources.checkpoint import Checkpoint
from msd.files.wording import listed
from msd.graph.rewrite import Target
from msd.models.families import Family, families
from msd.models.families.wiring import is_guided
from msd.models.networks import Size
from msd.models.tiny_config import TinyEncoderConfig
from msd.run.runtime.scheduler import faults_of, ignored_settings, name_of

CLIPS = ("clip_gelu", "clip_gelu_slope")
"""The rewrites that read the limit of clipped GELU."""


def conversion_remarks(
    checkpoint: Checkpoint,
    settings: Settings,
    components: Collection[str],
    inputs: Collection[str],
    sizes: Sequence[Size],
) -> tuple[str, ...]:
    """Return which settings do nothing for these components, which the scheduler does not read, and so on.

    `inputs` are those of the denoiser, and `sizes` those of images.
    """
    return (
        *_of_other_components(checkpoint, settings, components),
        *_of_controls(checkpoint.family, settings),
        *_of_batch(checkpoint.family, settings, inputs),
        *_of_latents(checkpoint, components),
        *_of_edited_latents(checkpoint, components),
        *_of_gelu(settings),
        *_of_interface(settings, components),
        *_of_tiles(checkpoint.family, settings, components, sizes),
        *_of_scheduler(checkpoint),
    )


def _of_other_components(
    checkpoint: Checkpoint, settings: Settings, components: Collection[str]
) -> Iterator[str]:
    """Yield the options that change networks which are not converted."""
    family = checkpoint.family
    encoders = {encoder.name for encoder in family.text_encoders}
    denoiser, pruning = {family.denoiser.name}, settings.pruning_of(family)
    asked = {
        "--lora": (settings.lora, encoders | denoiser),
        "--embedding": (settings.embeddings, encoders),
        "--clip-skip": (settings.clip_skip, encoders),
        "--prompt-chunks": (settings.prompt_chunks > 1, denoiser),
        "--unet": (settings.unet, denoiser),
        "--vae": (settings.vae, {*checkpoint.replaced}),
        "--split": (settings.split, denoiser),
        "pruning": (pruning, {*pruning.components} if pruning else set()),
    }
    for option, (given, changed) in asked.items():
        if given and not changed & {*components}:
            names = listed(family.ordered(changed))
            yield f"{option} changes {names}, which this conversion leaves out"


def _of_interface(settings: Settings, components: Collection[str]) -> Iterator[str]:
    interface = settings.interface
    if interface and (others := [name for name in components if name not in interface.networks]):
        keep = "keep" if len(others) > 1 else "keeps"
        yield f"the interface {interface.name} does not bind {listed(others)}, which {keep} msd's names"


def _of_controls(family: Family, settings: Settings) -> Iterator[str]:
    """Yield which ControlNets a calibration has no inputs of."""
    calibration = settings.calibration
    without = [name for name in family.controls if calibration and not calibration.is_for(name)]
    if without:
        yield (
            f"{', '.join(without)} is rounded to nearest: the calibration has no pictures by which it steers;"
            " a folder of inputs may have some"
        )


def _of_batch(family: Family, settings: Settings, inputs: Collection[str]) -> Iterator[str]:
    if settings.batch > 1 and is_guided(family, inputs):
        yield "--batch 2 is for two passes a step, and this U-Net, with guidance built in, needs one"


def _of_latents(checkpoint: Checkpoint, components: Collection[str]) -> Iterator[str]:
    """Yield that the autoencoder's latents are scaled as those of another family: it may be of that one."""
    family, decoder = checkpoint.family, checkpoint.family.decoder.name
    scale = getattr(checkpoint.configs.get(decoder), "scaling_factor", 1.0)
    others = [each for each in families().values() if each.scaling_factor == scale != family.scaling_factor]
    if decoder in components and others and scale != 1:
        yield (
            f"the autoencoder's scaling_factor, {scale:g}, is that of {others[0].title}, and that of"
            f" {family.title} is {family.scaling_factor:g}: images are wrong unless the"
            f" {family.denoiser.title} was trained with it"
        )


def _of_edited_latents(checkpoint: Checkpoint, components: Collection[str]) -> Iterator[str]:
    """Yield that a U-Net which reads unscaled latents of an image to edit gets a tiny autoencoder's."""
    family = checkpoint.family
    encoder, denoiser = family.image_encoder, family.denoiser
    if encoder is None or not isinstance(checkpoint.configs.get(encoder.name), TinyEncoderConfig):
        return
    unet = checkpoint.configs[denoiser.name]
    if encoder.name in components and unet.in_channels == 2 * unet.out_channels:
        yield (
            f"images are edited wrongly: the {denoiser.title} reads latents of the image that are not scaled"
            f" by {family.scaling_factor:g}, and those of a tiny autoencoder are: give --vae a file of the"
            " decoder alone, such as taesd_decoder.safetensors"
        )


def _of_tiles(
    family: Family, settings: Settings, components: Collection[str], sizes: Sequence[Size]
) -> Iterator[str]:
    tile, largest = settings.vae_tile, max(max(size.pixels) for size in sizes)
    if tile is None:
        return
    if tile >= largest:
        yield f"--vae-tile {tile} does nothing: images have at most {largest} pixels a side"
    elif not {*family.tiled} & {*components}:
        yield f"--vae-tile is for {listed(family.tiled)}, which this conversion leaves out"


def _of_gelu(settings: Settings) -> Iterator[str]:
    is_on = any(rule.name in CLIPS for rule in settings.active_rules)
    if settings.target.gelu_clip != Target().gelu_clip and not is_on:
        yield f"--gelu-clip does nothing: {listed(CLIPS)} are switched off"


def _of_scheduler(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield the settings that would change images, had the checkpoint another scheduler, and pndm's fault."""
    name = name_of(checkpoint.scheduler)
    yield from faults_of(name, checkpoint.scheduler.get("prediction_type", "epsilon"))
    for setting in ignored_settings(checkpoint.scheduler):
        yield (
            f"{setting} is ignored: the scheduler {name} does not read it, in"
            " diffusers neither; --scheduler takes another"
        )
