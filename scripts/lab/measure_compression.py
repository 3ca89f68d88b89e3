"""Measure the cost of compression on the demo checkpoint: sizes, components, latents, images, attributes.

    python -m scripts.lab.measure_compression convert build/compression
    python -m scripts.lab.measure_compression draw build/compression
    python -m scripts.lab.measure_compression compare build/compression -o docs/results/compression.json

`convert` writes a bundle for each variant, `draw` generates images of the same held-back captions from
the same latents with each, and `compare` compares them with float32, in a JSON file and a PNG of the first.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

from msd.bundle import Bundle, open_bundle
from msd.compress.calibration.generated_inputs import collect_inputs, record_inputs
from msd.files.atomic import atomic_write
from msd.graph.parity import psnr
from msd.models.demo import score
from msd.models.demo.captions import captions
from msd.models.families.stable_diffusion import STABLE_DIFFUSION
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from scripts.figures import save_figures
from scripts.lab.measured import machine

FLOAT = "float32"
CALIBRATED = ("--calibration", "calibration.txt")
ROUNDED = ("--calibration", "inputs")
VARIANTS: dict[str, tuple[str, ...]] = {
    FLOAT: ("--recipe", "float32", "--without", "clip_gelu"),
    "float16": ("--recipe", "float16"),
    "W8": ("--recipe", "gpu-w8"),
    "W8, no trunk": ("--recipe", "w8-plain.toml"),
    "W8, calibrated": ("--recipe", "gpu-w8", *ROUNDED),
    "W8, calibrated on random words": ("--recipe", "gpu-w8", "--calibration", "random-words"),
    "mixed int4 and int8": ("--recipe", "gpu-mixed"),
    "mixed int4 and int8, calibrated": ("--recipe", "gpu-mixed", *ROUNDED),
    "W4": ("--recipe", "gpu-w4"),
    "W4, calibrated": ("--recipe", "gpu-w4", *ROUNDED),
    "W8, 25 % pruned, all calibrated": ("--recipe", "w8-25-auto.toml", *ROUNDED),
    "W8, 12 % pruned": ("--recipe", "w8-12.toml", *CALIBRATED),
    "W8, 25 % pruned": ("--recipe", "w8-25.toml", *CALIBRATED),
    "W8, 25 % pruned, no refit": ("--recipe", "w8-25.toml", *CALIBRATED, "--no-refit"),
    "W8, 25 % pruned by magnitude": ("--prune", "25%", *CALIBRATED),
    "W8, 25 % pruned by magnitude, no refit": ("--prune", "25%"),
}
STUDENTS: dict[str, tuple[str, ...]] = {
    "mixed int4 and int8, trained": ("students/mixed", "--recipe", "gpu-mixed", *ROUNDED),
    "W4, trained": ("students/w4", "--recipe", "gpu-w4", *ROUNDED),
    "W8, 25 % pruned, trained": ("students/pruned", "--recipe", "w8-25-auto.toml"),
    "W8, 25 % pruned, trained, all calibrated": ("students/pruned", "--recipe", "w8-25-auto.toml", *ROUNDED),
}
"""Made of what `bench_distill students` has trained by these recipes, put there; only made by name."""

EVERY = {**VARIANTS, **STUDENTS}
PLAIN = """delegate = "litert-gpu"

[[line]]
store = "int8"
algorithm = "min-max"
"""
RECIPE = """delegate = "litert-gpu"
{trunk}
[[line]]
store = "int8"
algorithm = "{algorithm}"

[prune]
budget = "{share}%"
criterion = "reconstruction"
"""
CALIBRATION = 24
"""The captions for calibrating; none of them is measured."""

MEASURED = 200
"""The held-back captions, of which the first are drawn."""

COMMAND = "python -m scripts.lab.measure_compression"
GPU = ", on a GPU in float16"
STEPS, GUIDANCE, CHECKED, SHOWN, KEPT = 20, 7.5, 4, 6, 4
CHUNK = 5


@click.group(help=__doc__)
def main() -> None:
    """Measure in three steps, of which `draw` may run on another machine."""


@main.command("convert")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--variant", "names", multiple=True, type=click.Choice(list(EVERY)), default=VARIANTS)
def convert_all(folder: Path, names: Sequence[str]) -> None:
    """Convert the demo checkpoint in every way."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "calibration.txt").write_text("\n".join(captions("train", CALIBRATION, seed=2)) + "\n")
    for share in (12, 25):
        (folder / f"w8-{share}.toml").write_text(RECIPE.format(share=share, trunk="", algorithm="min-max"))
    (folder / "w8-plain.toml").write_text(PLAIN)
    automatic = RECIPE.format(share=25, trunk='trunk = "float16"\n', algorithm="auto")
    (folder / "w8-25-auto.toml").write_text(automatic)
    for name in names:
        if ROUNDED[1] in EVERY[name] and not (folder / ROUNDED[1]).exists():
            record(folder)
        command = ["msd-convert", "-o", place(name), *EVERY[name]]
        click.echo(f"{name}: {' '.join(command)}")
        subprocess.run([Path(sys.executable).with_name(command[0]), *command[1:]], cwd=folder, check=True)


def record(folder: Path) -> None:
    """Record the networks' inputs for the calibration's captions, with the variant W8."""
    prompts = captions("train", CALIBRATION, seed=2)
    requests = [Request(p, seed=i, steps=STEPS, guidance=GUIDANCE) for i, p in enumerate(prompts)]
    record_inputs(open_bundle(folder / place("W8")), requests, folder / ROUNDED[1], KEPT)


@main.command("draw")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--captions", "count", default=200, show_default=True)
@click.option("--variant", "names", multiple=True, type=click.Choice(list(EVERY)), default=VARIANTS)
@click.option("--gpu", is_flag=True, help="On a GPU in float16.  [default: on the CPU in float32]")
@click.option("--processes", default=os.cpu_count(), show_default="one for each core")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where to.  [default: FOLDER]")
def draw(
    folder: Path, count: int, names: Sequence[str], gpu: bool, processes: int, output: Path | None
) -> None:
    """Generate the same captions with every variant that is not drawn yet, its weights converted to float."""
    prompts = list(enumerate(captions("held-back", MEASURED, seed=1)[:count]))
    chunks = [prompts[i : i + CHUNK] for i in range(0, count, CHUNK)]
    with ProcessPoolExecutor(processes) as pool:
        for name in names:
            begun = time.perf_counter()
            bundle, made = folder / place(name), place(name + GPU * gpu)
            if (into := (output or folder) / f"{made}.npz").exists():
                click.echo(f"{name}: drawn already")
                continue
            done = list(pool.map(draw_some, [bundle] * len(chunks), chunks, [gpu] * len(chunks)))
            pixels, latents = (np.concatenate(parts) for parts in zip(*done, strict=True))
            values = {
                "pixels": pixels,
                "latents": latents,
                "machine": np.array(machine() + (adapter() if gpu else "")),
            }
            with atomic_write(into) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, **values)
            click.echo(f"{name}: {count} pictures, {time.perf_counter() - begun:.0f} s")


def adapter() -> str:
    """Return the GPU's name, behind a comma."""
    from msd.run.runners.adapter import find

    return f", {find().name}"


def draw_some(bundle: Path, prompts: Sequence[tuple[int, str]], gpu: bool) -> tuple[Any, Any]:
    """Return the pixels and last latents of some captions; the number of each is its seed."""
    requests = [Request(prompt, seed=seed, steps=STEPS, guidance=GUIDANCE) for seed, prompt in prompts]
    where: dict[str, Any] = {"backend": "gpu", "precision": "fp16"} if gpu else {"threads": 1}
    pictures = Pipeline(open_bundle(bundle), **where).generate_all(requests)
    return np.stack([p.pixels for p in pictures]), np.concatenate([p.latents for p in pictures])


@main.command("compare")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--images-only", is_flag=True, help="Leave out all that takes minutes.")
def compare(folder: Path, output: Path, images_only: bool) -> None:
    """Write the distance of every variant from float32 to OUTPUT, and a contact sheet beside it."""
    files = {name + gpu: folder / f"{place(name + gpu)}.npz" for name in EVERY for gpu in ("", GPU)}
    drawn = {name: dict(np.load(path)) for name, path in files.items() if path.is_file()}
    bundles = {name: open_bundle(folder / place(name.removesuffix(GPU))) for name in drawn}
    prompts = captions("held-back", MEASURED, seed=1)[: len(drawn[FLOAT]["pixels"])]
    wanted = None if images_only else Wanted(bundles[FLOAT], prompts[:CHECKED])
    rows = {name: row(bundles[name], wanted, made, drawn[FLOAT], prompts) for name, made in drawn.items()}
    report = {
        "commands": [f"{COMMAND} {verb} {folder}" for verb in ("convert", "draw")]
        + [
            f'{COMMAND} {verb} {folder} --variant "{name}"'
            for name in STUDENTS
            if name in rows
            for verb in ("convert", "draw")
        ]
        + [f"{COMMAND} draw {folder} --variant {name} --gpu" for name in EVERY if name + GPU in rows]
        + [f"{COMMAND} {' '.join(sys.argv[1:])}"],
        "machine": machine(),
        "versions": {name: version(name) for name in ("ai-edge-litert", "numpy", "tensorflow")},
        "captions": len(prompts),
        "steps": STEPS,
        "guidance": GUIDANCE,
        "variants": rows,
    }
    save_figures(output, report, "msd/compress")
    plot({name: each["pixels"] for name, each in drawn.items()}, prompts, picture_of(output))
    for name, each in rows.items():
        click.echo(f"{name}: {json.dumps(each)}")


def picture_of(output: Path) -> Path:
    """Return the place of the sheet beside a file of results, STUDY-RUN.png for a run of a study."""
    study = output.parent
    if study.suffix != ".json":
        return output.with_suffix(".png")
    return study.with_name(f"{study.stem}-{output.name}.png")


def place(name: str) -> str:
    """Return the name of a variant's folder."""
    return "".join(c if c.isalnum() else "-" for c in name.replace(" %", "")).replace("--", "-")


class Wanted:
    """The outputs of each network of the float32 bundle during generation."""

    def __init__(self, bundle: Bundle, prompts: Sequence[str]) -> None:
        requests = [Request(p, seed=1000 + i, steps=5, guidance=GUIDANCE) for i, p in enumerate(prompts)]
        self.inputs = collect_inputs(bundle, requests)
        self.outputs = {name: outputs(bundle, name, self.inputs[name]) for name in STABLE_DIFFUSION.required}


def outputs(bundle: Bundle, component: str, inputs: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the network's only output on each of `inputs`."""
    with Interpreter(bundle.path(component), float_weights=True) as network:
        return [next(iter(network.run(each).values())) for each in inputs]


def row(
    bundle: Bundle, wanted: Wanted | None, drawn: Any, reference: Any, prompts: Sequence[str]
) -> dict[str, Any]:
    """Return the cost of one variant: sizes in bytes, PSNR in dB, SSIM, the share of correct attributes."""
    least = {name: component_least(bundle, name, wanted) for name in STABLE_DIFFUSION.required if wanted}
    latents = [psnr(a, b) for a, b in zip(reference["latents"], drawn["latents"], strict=True)]
    pairs = list(zip(reference["pixels"], drawn["pixels"], strict=True))
    pictures = [psnr(a / 255, b / 255) for a, b in pairs]
    return {
        "drawn on": str(drawn["machine"]),
        "bytes": {name: part.bytes for name, part in bundle.manifest.components.items()},
        "components, least dB": {name: rounded(value) for name, value in least.items()},
        "latents, median dB": rounded(float(np.median(latents))),
        "pictures, median dB": rounded(float(np.median(pictures))),
        "pictures, least dB": rounded(min(pictures)),
        "SSIM, mean": round(ssim(reference["pixels"], drawn["pixels"]), 4) if wanted else None,
        "attributes right": round(
            float(np.mean([score(a, b) for a, b in zip(drawn["pixels"], prompts, strict=True)])), 4
        ),
    }


def component_least(bundle: Bundle, name: str, wanted: Wanted) -> float:
    """Return the least PSNR of a network's outputs."""
    found = outputs(bundle, name, wanted.inputs[name])
    return min(psnr(a, b) for a, b in zip(wanted.outputs[name], found, strict=True))


def rounded(decibels: float) -> float | None:
    """Return decibels with one digit; None for equal arrays."""
    return round(decibels, 1) if math.isfinite(decibels) else None


def ssim(reference: Any, found: Any) -> float:
    """Return the mean structural similarity (Wang et al. 2004), as TensorFlow computes it."""
    import tensorflow as tf

    return float(np.mean(tf.image.ssim(reference, found, max_val=255)))


def plot(pictures: Mapping[str, Any], prompts: Sequence[str], path: Path) -> None:
    """Plot each variant's images of the first captions, a row each, like arXiv 2307.01193's figure 5."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.1 * len(pictures), 2.3 * SHOWN), layout="constrained")
    for i, line in enumerate(np.atleast_2d(figure.subplots(SHOWN, len(pictures)))):
        for axes, (name, pixels) in zip(line, pictures.items(), strict=True):
            axes.imshow(pixels[i])
            axes.set(xticks=[], yticks=[])
            if i == 0:
                axes.set_title(wrapped(name, 20), fontsize=9)
        line[0].set_ylabel(wrapped(prompts[i], 30), fontsize=7)
    figure.savefig(path, dpi=72)


def wrapped(text: str, width: int) -> str:
    """Return a text in lines of at most `width` characters."""
    return "\n".join(textwrap.wrap(text, width))


if __name__ == "__main__":
    main()
