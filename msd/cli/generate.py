"""`msd generate`: generate images with a folder of converted files."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from msd.cli.backend_choice import GENERATING
from msd.cli.command import Command, refuse_existing

if TYPE_CHECKING:
    from msd.runtime.guidance import Guidance
    from msd.runtime.picture import Picture
    from msd.runtime.pipeline import OnStep, Request
    from msd.runtime.preview import OnPreview, Preview
    from msd.runtime.timeline import Recorder


def _known(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse a scheduler that is none of ours."""
    from msd.runtime.scheduler import SCHEDULERS

    if value is not None and value not in SCHEDULERS:
        raise click.BadParameter(f"{value!r} is none of {', '.join(SCHEDULERS)}")
    return value


def _utf8(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse words that the shell passed as bytes which are no UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise click.BadParameter("is not valid UTF-8") from error
    return value


OUT = click.Path(path_type=Path, file_okay=False)
PICTURE = click.Path(path_type=Path, dir_okay=False)
PRECISIONS = click.Choice(["fp32", "fp16"])
EXECUTIONS = click.Choice(["pipelined", "sequential", "resident"])


@click.command(cls=Command)
@click.argument("out", type=OUT)
@click.option("--prompt", callback=_utf8, required=True, help="What the image should show.")
@click.option("--negative-prompt", callback=_utf8, default="", help="What it should not show.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed gives the same image."
)
@click.option(
    "--images",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of images, with consecutive seeds.",
)
@click.option("--steps", type=click.IntRange(1), default=20, show_default=True, help="Denoising steps.")
@click.option("--guidance", type=click.FloatRange(0), default=7.5, show_default=True, help="1 or less: none.")
@click.option(
    "--scheduler",
    callback=_known,
    metavar="NAME",
    help="ddim, dpm++, euler or lcm.  [default: the checkpoint's own, else ddim]",
)
@click.option(
    "-o", "--output", type=PICTURE, required=True, help="The PNG file to write; {seed} stands for the seed."
)
@click.option("--backend", type=GENERATING, default="cpu", show_default=True, help="Where the networks run.")
@click.option(
    "--precision", type=PRECISIONS, default="fp32", show_default=True, help="Precision of a GPU's arithmetic."
)
@click.option("--threads", type=click.IntRange(1), show_default="one per core", help="Threads on the CPU.")
@click.option(
    "--float-weights/--dynamic-range",
    default=True,
    show_default=True,
    help="CPU, int8 weights: float arithmetic, as on a GPU, or faster with inputs rounded to 8 bits.",
)
@click.option(
    "--execution",
    type=EXECUTIONS,
    default="pipelined",
    show_default=True,
    help="Load the next network while one runs, one at a time, or all at the start.",
)
@click.option(
    "--timeline",
    type=PICTURE,
    help="Write the activity of each network and the memory: FILE.svg, .png or .json.",
    metavar="FILE",
)
@click.option(
    "--previews", type=OUT, metavar="FOLDER", help="Write previews of unfinished images to this folder."
)
@click.option(
    "--preview-every",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Steps between two previews.",
)
@click.option("--verify", is_flag=True, help="Check the SHA-256 of each network first.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each image.")
@click.option("--force", is_flag=True, help="Replace existing images.")
def generate(
    out: Path,
    output: Path,
    seed: int,
    images: int,
    scheduler: str | None,
    backend: Any,
    precision: Any,
    threads: int | None,
    float_weights: bool,
    execution: Any,
    timeline: Path | None,
    previews: Path | None,
    preview_every: int,
    verify: bool,
    as_json: bool,
    force: bool,
    **request: Any,
) -> None:
    """Generate images with the files that msd-convert wrote to the folder OUT.

    \b
    Examples:
      msd generate demo-out --prompt "two red circles over a plain green background" -o image.png
      msd generate demo-out --prompt "one blue star" --scheduler dpm++ --steps 10 -o star.png
    """
    from msd.bundle import open_bundle
    from msd.runtime.picture import check_output, picture_paths, save_picture
    from msd.runtime.pipeline import Pipeline, Request

    requests = [Request(seed=seed + i, **request) for i in range(images)]
    paths = picture_paths(output, [request.seed for request in requests])
    for path in paths:
        check_output(path, force)
    on_preview = _previewing(previews, preview_every, requests, force) if previews else None
    begun = time.perf_counter()
    engine = backend, threads, precision, float_weights
    with (
        _recorded(execution, timeline, force) as recorder,
        Pipeline(open_bundle(out, verify), *engine, scheduler, execution, recorder) as pipeline,
    ):
        _warn_of_unused(pipeline.guidance(request["guidance"]), request["negative_prompt"])
        with progress() as on_step:
            pictures = pipeline.draw(requests, on_step, on_preview=on_preview)
    for path, picture in zip(paths, pictures, strict=True):
        save_picture(picture, path, force)
    seconds = round(time.perf_counter() - begun, 3)
    for path, picture in zip(paths, pictures, strict=True):
        _say(path, picture, seconds, as_json)


@contextmanager
def _recorded(execution: str, timeline: Path | None, force: bool) -> Iterator[Recorder | None]:
    """Record what happens within, and write it if all went well; nothing where no file is wanted."""
    from msd.runtime.timeline import Recorder
    from msd.runtime.timeline_plot import check_timeline, save_timeline

    if timeline is None:
        yield None
        return
    check_timeline(timeline)
    refuse_existing(timeline, force)
    with Recorder(execution) as recorder:
        yield recorder
    save_timeline(recorder.timeline, timeline)


@contextmanager
def progress() -> Iterator[OnStep]:
    """Show a bar of steps on stderr, with the seconds that the last one took."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    seconds_per_step = TextColumn("{task.fields[seconds]:.2f} s/step")
    columns = TextColumn("denoising"), BarColumn(), MofNCompleteColumn(), seconds_per_step
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=None, seconds=0.0)

        def on_step(done: int, total: int, seconds: float) -> None:
            progress.update(task, completed=done, total=total, seconds=seconds)

        yield on_step


def _previewing(folder: Path, every: int, requests: Sequence[Request], force: bool) -> OnPreview:
    """Return what writes previews to a folder, SEED-STEP.png; refuse those that are there."""
    from msd.files.atomic import raises_unwritable
    from msd.runtime.picture import Picture, check_output, save_picture

    def path(seed: int, number: int) -> Path:
        return folder / f"{seed}-{number:03}.png"

    def write(preview: Preview) -> None:
        if preview.number % every == 0:
            metadata = {"seed": preview.seed, "step": preview.number, "steps": preview.total}
            shown = Picture(preview.pixels(), preview.latents, metadata)
            save_picture(shown, path(preview.seed, preview.number), force)

    with raises_unwritable(folder, folder):
        folder.mkdir(exist_ok=True)
    for request in requests:
        for number in range(every, request.steps + 1, every):
            check_output(path(request.seed, number), force)
    return write


def _warn_of_unused(guidance: Guidance, negative_prompt: str) -> None:
    if negative_prompt and guidance.rows == 1:
        embedded = guidance.mode == "embedding"
        why = "this U-Net has its guidance built in" if embedded else "guidance of 1 or less needs none"
        click.echo(f"warning: the negative prompt is not used: {why}", err=True)


def _say(path: Path, picture: Picture, seconds: float, as_json: bool) -> None:
    """Say what was made, and the seconds that all pictures took."""
    height, width, _ = picture.pixels.shape
    report = {"picture": str(path), "width": width, "height": height, **picture.metadata, "seconds": seconds}
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
    else:
        line = "{picture}: {width}×{height}, seed {seed}, {seconds} s".format_map(report)
        click.echo(line, file=sys.stderr)
