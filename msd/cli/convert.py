"""`msd-convert`: a checkpoint to three .tflite files."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from msd.bundle import COMPONENTS, network_of
from msd.cli import options
from msd.cli.command import Command, refuse_existing
from msd.cli.options import FILE
from msd.cli.progress import conversion_progress
from msd.cli.pruning import pruning_settings, save_report, say_pruning

if TYPE_CHECKING:
    from msd.bundle import Manifest
    from msd.conversion.convert import Plan, Settings
    from msd.encoding.recipe import Recipe
    from msd.prediction.device import Target
    from msd.rewrite import Rewrite


def _recipe(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return the name or file; `list` shows the recipes that come with msd, and exits."""
    if value != "list":
        return value
    from msd.encoding.recipe import find_recipe, shipped

    for name in shipped():
        click.echo(f"{name:<15} {find_recipe(name).description}")
    ctx.exit()


@click.command(cls=Command)
@click.argument("source", required=False, type=click.Path(path_type=Path))
@options.output_folder()
@click.option(
    "--lora",
    multiple=True,
    metavar="FILE[:SCALE]",
    help="A LoRA (.safetensors) to merge into the weights; may be repeated.  [default scale: 1]",
)
@click.option(
    "--source",
    "networks",
    type=click.Choice(["auto", "keras-cv"]),
    default="auto",
    show_default=True,
    help="keras-cv: the networks are keras-cv's own, and SOURCE has its .h5 files.",
)
@click.option(
    "--component",
    "components",
    multiple=True,
    type=click.Choice(COMPONENTS),
    help="Only this one; may be repeated.  [default: all]",
)
@click.option(
    "--recipe",
    metavar="NAME|FILE",
    default="gpu-w8",
    show_default=True,
    help="How weights are stored: a name of configs/recipes/, or a .toml file like those.  [list: show them]",
    is_eager=True,
    callback=_recipe,
)
@click.option(
    "--batch",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="2: both guidance passes at once.",
)
@click.option("--height", type=click.IntRange(8), help="Pixels.  [default: the checkpoint's own]")
@click.option("--width", type=click.IntRange(8), help="Pixels.  [default: the checkpoint's own]")
@click.option(
    "--prediction-type",
    type=click.Choice(["epsilon", "v_prediction"]),
    help="What the U-Net predicts.  [default: what the checkpoint says]",
)
@click.option(
    "--gelu-clip", type=click.FloatRange(1), default=10.0, show_default=True, help="M of clipped GELU."
)
@click.option(
    "--device",
    metavar="NAME|FILE",
    help="The GPU to fit: a name of configs/devices/, or a .toml file like those.  [default: adreno-740]",
)
@click.option(
    "--without",
    multiple=True,
    metavar="REWRITE",
    help="Switch a rewrite off, by the name that --explain shows.",
)
@click.option("--prune", metavar="N%|NMB", help="Take 15% of the U-Net out, or all but 600MB.")
@click.option(
    "--calibration",
    type=click.Path(path_type=Path),
    metavar="PROMPTS.txt|FOLDER",
    help="Refit what is pruned: on prompts to draw, one a line, or a folder of .npz inputs.",
)
@click.option("--no-refit", is_flag=True, help="Leave the weights around what is pruned as they are.")
@click.option("--prune-report", type=FILE, metavar="FILE", help="Write what went of each unit, as JSON.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and stop.")
@click.option("--explain", is_flag=True, help="Say what each rewrite did, and what it refused and why.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest (or the plan) as JSON.")
@options.force("Replace what is in the folder.")
def convert(
    source: Path | None,
    output: Path,
    lora: tuple[str, ...],
    networks: str,
    components: tuple[str, ...],
    recipe: str,
    batch: int,
    height: int | None,
    width: int | None,
    prediction_type: str | None,
    gelu_clip: float,
    device: str | None,
    without: tuple[str, ...],
    prune: str | None,
    calibration: Path | None,
    no_refit: bool,
    prune_report: Path | None,
    dry_run: bool,
    explain: bool,
    as_json: bool,
    force: bool,
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
    from msd.conversion import convert as conversion
    from msd.encoding.recipe import find_recipe
    from msd.sources import lora as adapters

    chosen_recipe = find_recipe(recipe)
    rules = _rules(without, chosen_recipe)
    target = _target(device, gelu_clip)
    pruning, observed = pruning_settings(prune, calibration, no_refit, chosen_recipe)
    settings = conversion.Settings(
        rules=rules,
        recipe=chosen_recipe,
        components=tuple(c for c in COMPONENTS if c in (components or COMPONENTS)),
        batch=batch,
        height=height,
        width=width,
        target=target,
        prediction_type=prediction_type,
        force=force,
        lora=[adapters.parse(text) for text in lora],
        networks=networks,
        pruning=pruning,
        calibration=observed,
    )
    if prune_report:
        refuse_existing(prune_report, force)
    source = source or _demo()
    if dry_run:
        _say_plan(conversion.plan(source, settings), settings, as_json)
        return
    converted: list[str] = []
    with conversion_progress(converted) as on_progress:
        manifest = conversion.convert(source, output, settings, on_progress)
    if prune_report:
        save_report(manifest, prune_report)
    if as_json:
        click.echo(json.dumps(asdict(manifest), indent=2))
        return
    _say(manifest, output, converted)
    say_pruning(manifest)
    if explain:
        _explain(manifest)


def _demo() -> Path:
    from msd.demo import CHECKPOINT

    return CHECKPOINT


def _rules(without: Sequence[str], recipe: Recipe) -> list[Rewrite]:
    """Return all rewrites but those switched off by --without; the recipe's own are left to `Settings`."""
    import graph_rewrites
    from msd.errors import BadConfig

    rules = graph_rewrites.load()
    names = [rule.name for rule in rules]
    if unknown := set(without) - set(names):
        raise click.BadParameter(f"no rewrite is called {sorted(unknown)}; there are {', '.join(names)}")
    if unknown := set(recipe.without) - set(names):
        raise BadConfig(f"the recipe {recipe.name} is without {sorted(unknown)}, which are no rewrites")
    return [rule for rule in rules if rule.name not in without]


def _target(device: str | None, gelu_clip: float) -> Target:
    from msd.prediction.device import Device, Target, find_device

    return Target(find_device(device) if device else Device(), gelu_clip)


def _say_plan(plan: Plan, settings: Settings, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(plan), indent=2))
        return
    click.echo(f"{plan.width}x{plan.height} pixels, batch {settings.batch}, recipe {settings.recipe.name}:")
    for name, parameters in plan.parameters.items():
        click.echo(
            f"  {name + '.tflite':<21} {parameters / 1e6:8.1f} M parameters, about {_size(plan.bytes[name])}"
        )


def _say(manifest: Manifest, output: Path, converted: Collection[str]) -> None:
    for name, part in manifest.components.items():
        ledger = manifest.ledger.get(name)
        origin = f"of {ledger['before']} traced" if ledger else f"for the {part.runs_on.upper()}"
        unchanged = "" if network_of(name) in converted else ", unchanged"
        click.echo(
            f"{output / part.file}: {_size(part.bytes)}, {part.operations} operations ({origin}){unchanged}"
        )
    if because := manifest.scheduler.get("_prediction_type_because"):
        click.echo(f"the U-Net predicts {manifest.scheduler['prediction_type']}: {because}")
    for name, what in manifest.source.published.items():
        click.echo(f"{name} is {what} as published")
    if not converted:
        click.echo("Nothing to do: all of it is there, made of the same weights in the same way.")
        return
    took = manifest.conversion
    click.echo(f"{took.seconds:.1f} s, peak memory {_size(took.peak_rss_bytes)}")


def _explain(manifest: Manifest) -> None:
    """Print each component's ledger: rewrites that fired, those that skipped and why, and the others."""
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
