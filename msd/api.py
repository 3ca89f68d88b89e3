"""The public API for scripts and notebooks; docs/api.md shows it, and everything else is private.

import msd

bundle = msd.convert("stable-diffusion-2-1-base", "sd21")
image = msd.generate(bundle, "an astronaut on a horse", seed=7)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msd import bundle as bundles
from msd.bundle import Bundle, ImageSize
from msd.conversion.damage import damage_named
from msd.conversion.keywords import known_keywords
from msd.conversion.options import ConversionOptions, options
from msd.errors import BadConfig, MsdError

if TYPE_CHECKING:
    from msd.conversion.convert import OnProgress
    from msd.gpu.gpu_api import GpuApi
    from msd.graph.ir.weights import Array
    from msd.measure.judging import Verdict
    from msd.measure.report.report import FileReport
    from msd.run.runners.runner import Precision
    from msd.run.runtime.image import GeneratedImage
    from msd.run.runtime.initial_image import Fit
    from msd.run.runtime.prompt_syntax import PromptSyntax
    from msd.run.runtime.step_counter import OnStep

__all__ = [
    "Bundle",
    "ConversionOptions",
    "ImageSize",
    "MsdError",
    "convert",
    "generate",
    "judge",
    "open_bundle",
    "predict",
]


OPTIONS = tuple(options())
"""The names of a conversion's options."""

open_bundle = known_keywords()(bundles.open_bundle)


@known_keywords(OPTIONS)
def convert(
    source: str | Path | None,
    output: str | Path,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> Bundle:
    """Convert a checkpoint into the folder `output`; return the bundle that it then holds.

    `source` is a folder in diffusers' layout, one .safetensors or .ckpt file, a folder of keras-cv's .h5
    files, or an id on Hugging Face; None is the demo checkpoint. `on_progress` is called with a component,
    its stage, how much of it is done, and the total. What the command warns of is in the bundle's
    `manifest.conversion.remarks`. Raises MsdError with the sentence that the command
    prints, and TypeError, with the nearest name, for an unknown option.
    """
    import graph_rewrites
    from msd.conversion.choices import conversion_settings
    from msd.conversion.convert import convert as convert_checkpoint
    from msd.conversion.source import find_source
    from msd.models.demo import CHECKPOINT

    settings = conversion_settings(graph_rewrites.load(), **options)
    out = Path(output)
    place = CHECKPOINT if source is None else find_source(Path(source), settings, out)
    convert_checkpoint(place, out, settings, on_progress)
    return open_bundle(output)


@known_keywords()
def generate(
    bundle: Bundle | str | Path,
    prompt: str,
    *,
    negative_prompt: str = "",
    seed: int = 0,
    steps: int | None = None,
    guidance: float | None = None,
    prompt_syntax: PromptSyntax = "plain",
    image: str | Path | None = None,
    mask: str | Path | None = None,
    strength: float | None = None,
    fit: Fit = "crop",
    paste: bool = True,
    controls: Sequence[str] = (),
    control_from: float = 0.0,
    control_until: float = 1.0,
    guess: bool = False,
    from_photo: bool = False,
    upscale: int | None = None,
    image_guidance: float | None = None,
    scheduler: str | None = None,
    size: ImageSize | None = None,
    tiles: bool = False,
    backend: str = "cpu",
    precision: Precision = "fp32",
    gpu_api: GpuApi | None = None,
    on_step: OnStep | None = None,
) -> GeneratedImage:
    """Generate one image: `pixels` uint8 (height, width, 3), `latents`, and `metadata`.

    The same seed gives the same image. `steps` and `guidance` are by default those of the bundle's manifest,
    and `size`, one of the bundle's sizes, is by default the first. With `image`, a file, generation begins
    from it, changes it by `strength`, and repaints it only where `mask` is white; `fit` says how the files
    are fitted to the model's size, and `paste=False` leaves the rest as the autoencoder decodes it
    (docs/image-to-image.md). A model that edits the image keeps to it by `image_guidance`. ControlNets steer
    by the pictures in `controls`, NAME=FILE[:SCALE[:FROM[:UNTIL]]] each, by default between `control_from`
    and `control_until`, with `guess` although the prompt does not describe them, and with `from_photo` by the
    photograph's edges (docs/controlnet.md). `upscale` enlarges the image that many times, and `tiles` runs
    the autoencoder in tiles (docs/upscaling.md). For several images with the networks loaded once, use
    `msd.run.runtime.pipeline.Pipeline`. `save(path)` of the result writes a file, and `remarks` in its
    metadata are sentences on what was not used. Raises MsdError.
    """
    from msd.conversion.sizes.pick import one_size
    from msd.run.runtime.control_file import parse_control, read_control, require_used
    from msd.run.runtime.needs import read_initial_image
    from msd.run.runtime.pipeline import Pipeline

    steering = [parse_control(each) for each in controls]
    require_used(image, steering, fit, control_from, control_until, from_photo)
    opened = bundle if isinstance(bundle, Bundle) else open_bundle(bundle)
    with (
        damage_named([opened.folder]),
        one_size(opened, size, tiles) as picked,
        Pipeline(picked, backend, precision=precision, scheduler=scheduler, gpu_api=gpu_api) as pipeline,
    ):
        return pipeline.generate(
            prompt,
            negative_prompt=negative_prompt,
            seed=seed,
            steps=steps,
            guidance=guidance,
            image=read_initial_image(picked, image, mask, fit),
            strength=strength,
            paste=paste,
            upscale=upscale,
            image_guidance=image_guidance,
            prompt_syntax=prompt_syntax,
            on_step=on_step,
            controls=[
                read_control(picked, each, control_from, control_until, fit, from_photo) for each in steering
            ],
            guess=guess,
        )


@known_keywords()
def predict(
    file: str | Path, delegates: Sequence[str] = ("litert-gpu",), device: str | Path | None = None
) -> FileReport:
    """Return what the rules predict of a .tflite file: for each delegate, findings, partitions and memory.

    `device` is a name of configs/devices/ or a TOML file, by default an Adreno 740. Nothing runs. Raises
    msd.errors.BadModelFile, also for a file whose inputs leave sizes open, and BadConfig.
    """
    from msd.conversion.sizes.fix_shapes import require_fixed
    from msd.graph import tflite
    from msd.graph.prediction.device import Device, find_device
    from msd.measure.report.examine import examine

    if not delegates:
        raise BadConfig("delegates is empty; the name of a delegate was expected, as 'litert-gpu'")
    chosen = Device() if device is None else find_device(str(device))
    with damage_named([Path(file)]):
        found = examine(Path(file), tuple(delegates), chosen)
        require_fixed(Path(file), tflite.read(Path(file)).main)
    return found


@known_keywords()
def judge(
    file: str | Path,
    precision: Precision = "fp32",
    inputs: Mapping[str, Array] | None = None,
    timeout: float = 600.0,
) -> Verdict:
    """Return the verdict of LiteRT's real GPU delegate on a .tflite file, and its distance from the CPU.

    The file runs on `inputs`, or on seeded random ones, in a child process; `timeout` bounds the compilation
    and each run in seconds. Raises msd.errors.BadModelFile, also for a file whose inputs leave sizes open,
    and NoDelegate without a Vulkan adapter.
    """
    from msd.conversion.sizes.fix_shapes import require_fixed
    from msd.graph import tflite
    from msd.measure.judging import judge as judge_file

    if not timeout > 0:
        raise BadConfig(f"timeout is {timeout}; seconds above 0 were expected")
    with damage_named([Path(file)]):
        require_fixed(Path(file), tflite.read(Path(file)).main)
        return judge_file(Path(file), precision=precision, inputs=inputs, timeout=timeout)
