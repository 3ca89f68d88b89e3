"""`msd-convert`: a checkpoint to three .tflite files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from msd.cli.command import Command, refuse_existing
from msd.cli.pruning import pruning, save_report, say_pruning
from msd.families import component_names, find_family

if TYPE_CHECKING:
    from msd.bundle import Manifest
    from msd.conversion.convert import OnProgress, Plan, Settings

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


def _recipe(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return the name or file; `list` shows what comes with msd and ends."""
    if value != "list":
        return value
    from msd.encoding.recipe import find_recipe, shipped

    for name in shipped():
        click.echo(f"{name:<15} {find_recipe(name).description}")
    ctx.exit()


@click.command(cls=Command)
@click.argument("source", required=False, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=FOLDER, required=True, help="The folder to write.")
@click.option(
    "--lora",
    multiple=True,
    metavar="FILE[:SCALE]",
    help="Merge a LoRA (.safetensors) into the weights; may be repeated.  [default scale: 1]",
)
@click.option(
    "--source",
    "networks",
    type=click.Choice(["auto", "keras-cv"]),
    default="auto",
    show_default=True,
    help="keras-cv: build keras-cv's own networks; SOURCE has its .h5 files.",
)
@click.option(
    "--component",
    "components",
    multiple=True,
    type=click.Choice(component_names()),
    help="Convert only this component; may be repeated.  [default: all]",
)
@click.option(
    "--recipe",
    metavar="NAME|FILE",
    default="gpu-w8",
    show_default=True,
    help="How to store weights: a name of configs/recipes/, or a .toml file like those.  [list: show them]",
    is_eager=True,
    callback=_recipe,
)
@click.option(
    "--batch",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="2: both guidance passes in one run.",
)
@click.option("--height", type=click.IntRange(8), help="Pixels.  [default: the checkpoint's own]")
@click.option("--width", type=click.IntRange(8), help="Pixels.  [default: the checkpoint's own]")
@click.option(
    "--prediction-type",
    type=click.Choice(["epsilon", "v_prediction"]),
    help="What the U-Net predicts.  [default: as the checkpoint states]",
)
@click.option(
    "--gelu-clip",
    type=click.FloatRange(1),
    default=10.0,
    show_default=True,
    help="The limit M of clipped GELU.",
)
@click.option(
    "--device",
    metavar="NAME|FILE",
    help="The target GPU: a name of configs/devices/, or a .toml file like those.  [default: adreno-740]",
)
@click.option(
    "--without",
    multiple=True,
    metavar="REWRITE",
    help="Switch off a rewrite, by the name that --explain shows; may be repeated.",
)
@click.option("--prune", metavar="N%|NMB", help="Prune 15% of the U-Net's parameters, or down to 600MB.")
@click.option(
    "--calibration",
    type=click.Path(path_type=Path),
    metavar="PROMPTS.txt|FOLDER",
    help="Refit after pruning, on prompts (one per line) or a folder of .npz inputs.",
)
@click.option("--no-refit", is_flag=True, help="Do not refit the layers that read pruned units.")
@click.option(
    "--prune-report", type=FILE, metavar="FILE", help="Write as JSON what was pruned from each unit."
)
@click.option("--dry-run", is_flag=True, help="Print what would be written, and stop.")
@click.option("--explain", is_flag=True, help="Print what each rewrite did, what it skipped, and why.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest (or the plan) as JSON.")
@click.option("--force", is_flag=True, help="Replace what is in the folder.")
def convert(
    source: Path | None,
    output: Path,
    recipe: str,
    device: str | None,
    gelu_clip: float,
    without: tuple[str, ...],
    prune_report: Path | None,
    dry_run: bool,
    explain: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Convert the checkpoint SOURCE for the GPU of a phone.

    SOURCE is a folder in diffusers layout, one .safetensors or .ckpt file of Stable Diffusion 1.x or 2.x, or
    a folder with keras-cv's three .h5 files. Nothing in a .ckpt is executed. Without SOURCE, the demo
    checkpoint that comes with msd is converted.

    \b
    Examples:
        msd-convert stable-diffusion-2-1-base -o sd21 --explain
        msd-convert stable-diffusion-2-1-base -o sd21-half --recipe float16
        msd-convert v2-1_512-ema-pruned.safetensors -o sd21 --prediction-type epsilon
    """
    from msd.bundle import dump_manifest
    from msd.conversion import convert as conversion

    settings = _settings(recipe, device, gelu_clip, without, options)
    if prune_report:
        refuse_existing(prune_report, options["force"])
    source = source or _demo()
    if dry_run:
        _say_plan(conversion.plan(source, settings), settings, as_json)
        return
    made: dict[str, Any] = {}
    with _progress(made) as on_progress:
        manifest = conversion.convert(source, output, settings, on_progress)
    if prune_report:
        save_report(manifest, prune_report)
    if as_json:
        click.echo(dump_manifest(manifest), nl=False)
        return
    _say(manifest, output, made)
    say_pruning(manifest)
    if explain:
        _explain(manifest)


def _demo() -> Path:
    from msd.demo import CHECKPOINT

    return CHECKPOINT


def _settings(
    recipe: str, device: str | None, gelu_clip: float, without: tuple[str, ...], options: Any
) -> Settings:
    import graph_rewrites
    from msd.conversion.convert import Settings
    from msd.encoding.recipe import find_recipe
    from msd.errors import BadConfig
    from msd.prediction.device import Device, Target, find_device
    from msd.sources import lora

    rules = graph_rewrites.load()
    names, chosen_recipe = [r.name for r in rules], find_recipe(recipe)
    if unknown := set(without) - set(names):
        raise click.BadParameter(f"no rewrite is called {sorted(unknown)}; there are {', '.join(names)}")
    if unknown := set(chosen_recipe.without) - set(names):
        raise BadConfig(
            f"the recipe {chosen_recipe.name} is without {sorted(unknown)}, which are no rewrites"
        )
    target = Target(find_device(device) if device else Device(), gelu_clip)
    options["lora"] = [lora.parse(text) for text in options["lora"]]
    kept = [r for r in rules if r.name not in without]
    budget, calibration, no_refit = map(options.pop, ("prune", "calibration", "no_refit"))
    pruned = pruning(budget, calibration, no_refit, chosen_recipe)
    return Settings(kept, chosen_recipe, target=target, **pruned, **options)


@contextmanager
def _progress(tasks: dict[str, Any]) -> Iterator[OnProgress]:
    """Show on stderr what is being done to which component; `tasks` gets every component that is."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(),
        TextColumn("{task.fields[what]:<10}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def on_progress(component: str, what: str, done: int, total: int) -> None:
            if component not in tasks:
                tasks[component] = progress.add_task(component, total=None, what=what)
            if what == "writing":
                progress.update(tasks[component], what=what, completed=done, total=total)
            else:
                progress.update(tasks[component], what=what)

        yield on_progress
        for task in tasks.values():
            progress.update(task, what="done")


def _say_plan(plan: Plan, settings: Settings, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(plan), indent=2))
        return
    click.echo(f"{plan.width}x{plan.height} pixels, batch {settings.batch}, recipe {settings.recipe.name}:")
    for name, parameters in plan.parameters.items():
        click.echo(
            f"  {name + '.tflite':<21} {parameters / 1e6:8.1f} M parameters, about {_size(plan.bytes[name])}"
        )


def _say(manifest: Manifest, output: Path, made: Collection[str]) -> None:
    family = find_family(manifest.family)
    for name, part in manifest.components.items():
        ledger = manifest.ledger.get(name)
        origin = f"of {ledger['before']} traced" if ledger else f"for the {part.runs_on.upper()}"
        unchanged = "" if family.component_of(name).name in made else ", unchanged"
        click.echo(
            f"{output / part.file}: {_size(part.bytes)}, {part.operations} operations ({origin}){unchanged}"
        )
    if because := manifest.scheduler.get("_prediction_type_because"):
        click.echo(f"the U-Net predicts {manifest.scheduler['prediction_type']}: {because}")
    for name, what in manifest.source.published.items():
        click.echo(f"{name} is {what} as published")
    if not made:
        click.echo("Nothing to do: every file is up to date.")
        return
    took = manifest.conversion
    click.echo(f"{took.seconds:.1f} s, peak memory {_size(took.peak_rss_bytes)}")


def _explain(manifest: Manifest) -> None:
    """Print each component's ledger: what fired, then what only refused and why, then what found no place."""
    from rich.console import Console
    from rich.table import Table

    for name, ledger in manifest.ledger.items():
        fired = [row for row in ledger["rules"] if row["fired"]]
        refused = [row for row in ledger["rules"] if not row["fired"] and row["skipped"]]
        idle = [row["rule"] for row in ledger["rules"] if not row["fired"] and not row["skipped"]]
        table = Table("rewrite", "fired", "operations", "which", "left alone, because", title=name)
        for row in [*fired, *refused]:
            kinds = ", ".join(f"{k} {n:+d}" for k, n in row["kinds"].items())
            reasons = "\n".join(f"{v['count']}x {k}" for k, v in row["skipped"].items())
            table.add_row(row["rule"], str(row["fired"]), f"{row['ops']:+d}", kinds, reasons)
        table.caption = f"{ledger['before']} operations traced, {ledger['after']} written"
        Console().print(table)
        if idle:
            Console().print(f"No place for {', '.join(idle)}.\n")


def _size(count: int) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:.2f} GB"
