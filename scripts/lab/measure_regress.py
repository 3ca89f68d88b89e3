"""Measure the demo suite's response to injected faults, and to harmless changes.

    python -m scripts.lab.measure_regress build/regress -o docs/results/regress.json

Converts the demo checkpoint in several ways, changes the scale of each int8 tensor by 5 %, swaps weights, and
compares each with configs/suites/demo.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from msd.bundle import MANIFEST, open_bundle
from msd.graph import tflite
from msd.graph.ir import Model
from msd.measure.regress.compare import Result
from msd.measure.regress.regression import guard
from msd.measure.regress.suite import find_suite, read_suite
from msd.models.families.stable_diffusion import STABLE_DIFFUSION
from msd.run.runtime.pipeline import Pipeline
from scripts.figures import save_figures
from scripts.lab.measured import machine
from tests.faults import edited, int8_weights, scaled, swapped, untouched

BASE = "gpu-w8"
RECIPES = (BASE, "float16", "float32", "gpu-mixed", "gpu-w4", "cpu-w8")
CLIPS = (5.0, 3.0, 2.0, 1.0)
FACTOR = 1.05
SWAPS = (
    ("down_blocks.1.resnets.1.conv2", "down_blocks.2.resnets.0.conv2"),
    ("up_blocks.1.resnets.1.time_emb_proj", "up_blocks.2.resnets.1.time_emb_proj"),
    ("mid_block.resnets.0.conv1", "mid_block.resnets.1.conv1"),
)
COMMAND = "python -m scripts.lab.measure_regress"

Edit = Callable[[Model], None]


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--every", default=1, show_default=True, help="Scale every so manieth tensor.")
@click.option("--processes", default=1, show_default=True)
@click.option("--convert-only", is_flag=True, help="Stop when the bundles are there.")
def main(folder: Path, output: Path, every: int, processes: int, convert_only: bool) -> None:
    """Convert bundles that FOLDER lacks, run the suite, and write the metrics of every fault to OUTPUT."""
    for name in [*RECIPES, *(f"clip-{clip:g}" for clip in CLIPS)]:
        if not (folder / name / MANIFEST).is_file():
            convert(folder / name, name)
    if convert_only:
        return
    todo: list[tuple[str, str, Edit]] = [("the same model", "", untouched)]
    todo += [(f"recipe {name}", name, untouched) for name in RECIPES if name != BASE]
    todo += [(f"GELU clipped at {clip:g}", f"clip-{clip:g}", untouched) for clip in CLIPS]
    todo += [(f"swapped: {a} and {b}", "", swapped(f"{a}/kernel", f"{b}/kernel")) for a, b in SWAPS]
    rows = dict(measured(folder, todo))
    click.echo("\n".join(said(*row) for row in rows.items()))
    scales = all_scales(folder, every)
    with ProcessPoolExecutor(processes) as pool:
        for part in pool.map(partial(scale_some, folder), [scales[i::processes] for i in range(processes)]):
            rows |= part
    report = {
        "command": f"{COMMAND} {folder} -o {output}" + (f" --every {every}" if every > 1 else ""),
        "machine": machine(),
        "versions": {name: version(name) for name in ("ai-edge-litert", "numpy", "scikit-image")},
        "rows": rows,
    }
    save_figures(output, report, "msd/measure/regress", indent=1)


def convert(folder: Path, name: str) -> None:
    """Convert the demo checkpoint by the recipe or with the clip that `name` names."""
    import graph_rewrites
    from msd.compress.encoding.recipe import find_recipe
    from msd.conversion.convert import Settings, convert
    from msd.graph.prediction.device import Device
    from msd.graph.rewrite import Target
    from msd.models.demo import CHECKPOINT

    clip = float(name.removeprefix("clip-")) if name.startswith("clip-") else 10.0
    recipe = find_recipe(BASE if name.startswith("clip-") else name)
    convert(CHECKPOINT, folder, Settings(graph_rewrites.load(), recipe, target=Target(Device(), clip)))


def all_scales(folder: Path, every: int) -> list[tuple[str, str]]:
    """Return the component and the name of the int8 tensors to scale."""
    named = [
        (c, name)
        for c in STABLE_DIFFUSION.required
        for name in int8_weights(tflite.read(folder / BASE / f"{c}.tflite"))
    ]
    return named[::every]


def scale_some(folder: Path, tensors: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the suite's result for an error in each tensor's scale."""
    return dict(
        row
        for component, name in tensors
        for row in measured(folder, [(f"{component}: {name}", "", scaled(name, FACTOR))], component)
    )


def measured(
    folder: Path, todo: Sequence[tuple[str, str, Edit]], component: str = "unet"
) -> list[tuple[str, dict[str, Any]]]:
    """Return each fault's name and figures; a fault is a bundle of FOLDER, or an edit of `BASE`."""
    rows = []
    for name, bundle, edit in todo:
        with tempfile.TemporaryDirectory() as made:
            place = (
                folder / bundle if bundle else edited(folder / BASE, Path(made) / "edited", component, edit)
            )
            rows.append((name, figures(held(place))))
    return rows


def held(bundle: Path) -> Result:
    """Return the demo suite's result for a bundle."""
    path = find_suite("demo")
    suite = read_suite(path)
    pipeline = Pipeline(open_bundle(bundle), threads=1, scheduler=suite.drawing.scheduler)
    return guard(suite, pipeline, path.with_suffix("")).regress().result


def figures(result: Result) -> dict[str, Any]:
    """Return the worst and the median image, and the number of broken thresholds."""
    ratios = sorted(float("inf") if p.psnr_db is None else p.psnr_db for p in result.pictures)
    middle = (ratios[(len(ratios) - 1) // 2] + ratios[len(ratios) // 2]) / 2
    scores = [p.attributes for p in result.pictures if p.attributes is not None]
    return {
        "least dB": stored(ratios[0]),
        "median dB": stored(middle),
        "SSIM, least": min(p.ssim for p in result.pictures),
        "hash bits, most": max(p.hash_distance for p in result.pictures),
        "attributes right": round(sum(scores) / len(scores), 4),
        "limits": "reconverted" if result.reconverted else "thresholds",
        "broken": len(result.broken),
    }


def stored(decibels: float) -> float | None:
    """Return decibels with one digit, None for equal images."""
    return None if decibels == float("inf") else round(decibels, 1)


def said(name: str, row: dict[str, Any]) -> str:
    """Return a row in words."""
    return f"{name:<90} {row['least dB']} / {row['median dB']} dB, {row['broken']} broken"


if __name__ == "__main__":
    main()
