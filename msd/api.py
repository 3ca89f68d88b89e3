"""The public API for scripts and notebooks; docs/api.md shows it, and everything else is private.

import msd

bundle = msd.convert("stable-diffusion-2-1-base", "sd21")
image = msd.generate(bundle, "an astronaut on a horse", seed=7)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

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
    from msd.runtime.pipeline import OnStep

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


class ConversionOptions(TypedDict, total=False):
    """The options of a conversion; each key is an option of `msd-convert`, with its default.

    `height` and `width` are in pixels, and `sizes` take their place; `lora` are files with their scales;
    `prune` is a budget such as "15%" or "600MB"; `calibration` is a file of prompts or a folder of inputs;
    `refit` False leaves the weights around pruned units as they are; `force` replaces what the output folder
    holds.
    """

    recipe: str
    components: Sequence[str]
    batch: int
    height: int | None
    width: int | None
    sizes: Sequence[ImageSize]
    device: str | None
    gelu_clip: float
    without: Sequence[str]
    lora: Sequence[tuple[Path, float]]
    prediction_type: str | None
    networks: str
    prune: str | None
    calibration: Path | None
    refit: bool
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
    steps: int = 20,
    guidance: float = 7.5,
    scheduler: str | None = None,
    size: ImageSize | None = None,
    backend: str = "cpu",
    precision: Precision = "fp32",
    on_step: OnStep | None = None,
) -> GeneratedImage:
    """Generate one image: `pixels` uint8 (height, width, 3), `latents`, and `metadata`.

    `size` is one of the bundle's sizes, by default the first. The same seed gives the same image. For several
    images with the networks loaded once, use `msd.runtime.pipeline.Pipeline`. Raises msd.errors.MsdError.
    """
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
            on_step=on_step,
        )


def predict(
    file: str | Path, delegates: Sequence[str] = ("litert-gpu",), device: str | None = None
) -> FileReport:
    """Return what the rules predict of a .tflite file: for each delegate, findings, partitions and memory.

    `device` is a name of configs/devices/ or a TOML file, by default an Adreno 740. Nothing runs. Raises
    msd.errors.BadModelFile and BadConfig.
    """
    from msd.prediction.device import Device, find_device
    from msd.report.examine import examine

    return examine(Path(file), tuple(delegates), find_device(device) if device else Device())


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
    from msd.prediction.device import Device, Target, find_device

    recipe, device = find_recipe(options.get("recipe", DEFAULT)), options.get("device")
    pruning, calibration = _pruning(recipe, options)
    return Settings(
        rules=_rules(recipe, options.get("without", ())),
        recipe=recipe,
        components=tuple(options.get("components", ())),
        batch=options.get("batch", 1),
        height=options.get("height"),
        width=options.get("width"),
        sizes=tuple(options.get("sizes", ())),
        target=Target(find_device(device) if device else Device(), options.get("gelu_clip", 10.0)),
        prediction_type=options.get("prediction_type"),
        force=options.get("force", False),
        lora=options.get("lora", ()),
        networks=options.get("networks", "auto"),
        pruning=pruning,
        calibration=calibration,
    )


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
    if calibration and not pruning:
        raise BadConfig("a calibration is for pruning: give --prune, or a recipe with a table [prune]")
    if pruning and not options.get("refit", True):
        pruning = replace(pruning, refit=False)
    return pruning, Calibration(Path(calibration)) if calibration else None
