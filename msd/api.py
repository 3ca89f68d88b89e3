"""The public API for scripts and notebooks; docs/api.md shows it, and everything else is private.

import msd

bundle = msd.convert("stable-diffusion-2-1-base", "sd21")
image = msd.generate(bundle, "an astronaut on a horse", seed=7)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from msd.bundle import Bundle, ImageSize, open_bundle

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from msd.calibration.generated_inputs import Calibration
    from msd.conversion.convert import OnProgress, Settings
    from msd.encoding.recipe import Recipe
    from msd.ir.weights import Array
    from msd.judging import Verdict
    from msd.pruning.settings import Pruning
    from msd.report.report import FileReport
    from msd.rewrite import Rewrite
    from msd.runners.runner import Precision
    from msd.runtime.image import GeneratedImage
    from msd.runtime.initial_image import Fit
    from msd.runtime.pipeline import OnStep
    from msd.runtime.prompt_syntax import PromptSyntax

__all__ = [
    "Bundle",
    "ConversionOptions",
    "ImageSize",
    "convert",
    "generate",
    "judge",
    "open_bundle",
    "predict",
]


class ModelOptions(TypedDict, total=False):
    """The options of a conversion that change the model; each key is an option of `msd-convert`.

    `lora` are files with their scales; `embeddings` are files with their tokens, or None for the file's own;
    `vae` are autoencoders to use in place of the checkpoint's, and `preview_vae` is one for previews;
    `clip_skip` and `prompt_chunks` are those of docs/prompts.md; `scheduler` is written as in "tcd:eta=1";
    `steps` and `guidance` are those of images by default.
    """

    lora: Sequence[tuple[Path, float]]
    embeddings: Sequence[tuple[Path, str | None]]
    vae: Sequence[Path]
    preview_vae: Path | None
    clip_skip: int
    prompt_chunks: int
    scheduler: str | None
    steps: int | None
    guidance: float | None


class ConversionOptions(ModelOptions, total=False):
    """The options of a conversion; each key is an option of `msd-convert`, with its default.

    `height` and `width` are in pixels, and `sizes` take their place; `prune` is a budget such as "15%" or
    "600MB"; `calibration` is a file of prompts or a folder of inputs; `refit` False leaves the weights around
    pruned units as they are; `spelling` is a name of configs/spellings/ or a TOML file; `attention` is
    "products" or "composite", LiteRT's own operator; `jobs` threads read and quantise weights, one per core
    by default; `force` replaces what the output folder holds.
    """

    recipe: str
    components: Sequence[str]
    also: Sequence[str]
    batch: int
    height: int | None
    width: int | None
    sizes: Sequence[ImageSize]
    device: str | None
    gelu_clip: float
    spelling: str
    attention: str
    without: Sequence[str]
    prediction_type: str | None
    networks: str
    prune: str | None
    calibration: Path | None
    refit: bool
    jobs: int | None
    force: bool


def convert(
    source: str | Path | None,
    output: str | Path,
    on_progress: OnProgress | None = None,
    **options: Unpack[ConversionOptions],
) -> Bundle:
    """Convert a checkpoint into the folder `output`; return the bundle that it then holds.

    `source` is a folder in diffusers' layout, one .safetensors or .ckpt file, or a folder of keras-cv's .h5
    files; None is the demo checkpoint. `on_progress` is called with a component, its stage, how much of
    it is done, and the total. Raises msd.errors.MsdError with the sentence that the command prints.
    """
    from msd.conversion.convert import convert as convert_checkpoint
    from msd.demo import CHECKPOINT

    settings = conversion_settings(**options)
    convert_checkpoint(Path(source) if source else CHECKPOINT, Path(output), settings, on_progress)
    return open_bundle(output)


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
    scheduler: str | None = None,
    size: ImageSize | None = None,
    backend: str = "cpu",
    precision: Precision = "fp32",
    on_step: OnStep | None = None,
) -> GeneratedImage:
    """Generate one image: `pixels` uint8 (height, width, 3), `latents`, and `metadata`.

    The same seed gives the same image. `steps` and `guidance` are by default those of the bundle's manifest,
    and `size`, one of the bundle's sizes, is by default the first. With `image`, a file, generation begins
    from it, changes it by `strength`, and repaints it only where `mask` is white; `fit` says how the files
    are fitted to the model's size (docs/image-to-image.md). For several images with the networks loaded once,
    use `msd.runtime.pipeline.Pipeline`. Raises msd.errors.MsdError.
    """
    from msd.runtime.needs import read_initial_image
    from msd.runtime.pipeline import Pipeline
    from msd.sizes.pick import one_size

    opened = bundle if isinstance(bundle, Bundle) else open_bundle(bundle)
    with (
        one_size(opened, size) as picked,
        Pipeline(picked, backend, precision=precision, scheduler=scheduler) as pipeline,
    ):
        return pipeline.generate(
            prompt,
            negative_prompt=negative_prompt,
            seed=seed,
            steps=steps,
            guidance=guidance,
            image=read_initial_image(picked, image, mask, fit),
            strength=strength,
            prompt_syntax=prompt_syntax,
            on_step=on_step,
        )


def predict(
    file: str | Path, delegates: Sequence[str] = ("litert-gpu",), device: str | None = None
) -> FileReport:
    """Return what the rules predict of a .tflite file: for each delegate, findings, partitions and memory.

    `device` is a name of configs/devices/ or a TOML file, by default an Adreno 740. Nothing runs. Raises
    msd.errors.BadModelFile, also for a file whose inputs leave sizes open, and BadConfig.
    """
    from msd import tflite
    from msd.prediction.device import Device, find_device
    from msd.report.examine import examine
    from msd.sizes.fix_shapes import require_fixed

    chosen = find_device(device) if device else Device()
    found = examine(Path(file), tuple(delegates), chosen)
    require_fixed(Path(file), tflite.read(Path(file)).main)
    return found


def judge(
    file: str | Path,
    precision: Precision = "fp32",
    inputs: Mapping[str, Array] | None = None,
    timeout: float = 600.0,
) -> Verdict:
    """Return the verdict of LiteRT's real GPU delegate on a .tflite file, and its distance from the CPU.

    The file runs on `inputs`, or on seeded random ones, in a child process; `timeout` bounds the compilation
    and each run in seconds. Raises msd.errors.BadModelFile, and NoDelegate without a Vulkan adapter.
    """
    from msd.judging import judge as judge_file

    return judge_file(Path(file), precision=precision, inputs=inputs, timeout=timeout)


def conversion_settings(**options: Unpack[ConversionOptions]) -> Settings:
    """Return the settings of a conversion; raises msd.errors.BadConfig for invalid ones."""
    from msd.conversion.convert import Settings
    from msd.encoding.recipe import DEFAULT, find_recipe
    from msd.prediction.device import Device, find_device
    from msd.rewrite.spelling import DEFAULT as STANDARD
    from msd.rewrite.spelling import find_spelling
    from msd.rewrite.target import Target

    recipe, device = find_recipe(options.get("recipe", DEFAULT)), options.get("device")
    pruning, calibration = _pruning(recipe, options)
    return Settings(
        rules=_rules(recipe, options.get("without", ())),
        recipe=recipe,
        components=tuple(options.get("components", ())),
        also=tuple(options.get("also", ())),
        batch=options.get("batch", 1),
        height=options.get("height"),
        width=options.get("width"),
        sizes=tuple(options.get("sizes", ())),
        target=Target(
            find_device(device) if device else Device(),
            options.get("gelu_clip", 10.0),
            find_spelling(options.get("spelling", STANDARD)),
        ),
        prediction_type=options.get("prediction_type"),
        force=options.get("force", False),
        jobs=options.get("jobs"),
        attention=options.get("attention", "products"),
        networks=options.get("networks", "auto"),
        pruning=pruning,
        calibration=calibration,
        **_model_settings(options),
    )


def _model_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a conversion's options that change the model."""
    return {name: value for name, value in options.items() if name in ModelOptions.__annotations__}


def _rules(recipe: Recipe, without: Sequence[str]) -> list[Rewrite]:
    """Return all rewrites but those `without`; those that the recipe switches off must exist too."""
    import graph_rewrites
    from msd.errors import BadConfig

    rules = graph_rewrites.load()
    names = [rule.name for rule in rules]
    if unknown := set(without) - set(names):
        raise BadConfig(f"no rewrite is called {sorted(unknown)}; there are {', '.join(names)}")
    if unknown := set(recipe.without) - set(names):
        raise BadConfig(f"the recipe {recipe.name} is without {sorted(unknown)}, which are no rewrites")
    return [rule for rule in rules if rule.name not in without]


def _pruning(recipe: Recipe, options: ConversionOptions) -> tuple[Pruning | None, Calibration | None]:
    """Return the recipe's pruning as the options change it; raises BadConfig for a calibration alone."""
    from msd.calibration.generated_inputs import Calibration
    from msd.errors import BadConfig
    from msd.pruning.settings import Pruning, parse_budget, parse_pruning

    budget, calibration = options.get("prune"), options.get("calibration")
    pruning = parse_pruning(recipe.prune) if recipe.prune is not None else None
    if budget:
        pruning = replace(pruning or Pruning(), budget=parse_budget(budget))
    if calibration and not pruning and not recipe.is_rounded_on_calibration:
        raise BadConfig(
            "a calibration is for pruning and for rounding: give --prune, or a recipe with a table [prune] or"
            ' with integers by the algorithm "auto" or "gptq"'
        )
    if pruning and not options.get("refit", True):
        pruning = replace(pruning, refit=False)
    return pruning, Calibration(Path(calibration)) if calibration else None
