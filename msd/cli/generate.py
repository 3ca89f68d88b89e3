"""`msd generate`: generate images with a folder of converted files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from msd.cli import options
from msd.cli.backend_choice import say_adapter
from msd.cli.command import Command, Failure
from msd.cli.generate_options import pipeline_options, request_options
from msd.cli.least_steps import say_least_steps
from msd.cli.made_images import MadeImages
from msd.cli.options import FILE, FOLDER
from msd.cli.plain import say
from msd.cli.progress import step_progress
from msd.errors import BadConfig, OutputExists, OutputUnwritable
from msd.files.targets import require_writable
from msd.files.wording import counted

if TYPE_CHECKING:
    from msd.bundle import Bundle, ImageSize
    from msd.cli.generate_options import MakeRequests
    from msd.gpu.gpu_api import GpuApi
    from msd.run.runners.processes import Processes
    from msd.run.runners.runner import Precision
    from msd.run.runtime.execution import Execution
    from msd.run.runtime.pipeline import Pipeline
    from msd.run.runtime.preview import OnPreview, Preview
    from msd.run.runtime.request import Request
    from msd.run.runtime.timeline import TimelineRecorder


def _image_file(ctx: click.Context, param: click.Parameter, value: Path) -> Path:
    """Refuse a name whose suffix is that of no image."""
    from msd.run.runtime.image_file import format_of

    try:
        format_of(value)
    except BadConfig as problem:
        raise click.BadParameter(str(problem)) from problem
    return value


GROUPS = {
    "Basics": ("prompt", "negative_prompt", "seed", "count", "steps", "output", "backend", "force", "help"),
    "Model": (
        *("guidance", "scheduler", "size", "prompt_syntax", "image", "mask", "strength", "fit", "paste"),
        *("image_guidance", "controls", "control_from", "control_until", "guess", "from_photo", "upscale"),
    ),
}


@click.command(cls=Command, groups=GROUPS)
@click.argument("out", type=FOLDER)
@request_options
@pipeline_options
@click.option(
    "-o",
    "--output",
    type=FILE,
    callback=_image_file,
    default="image-{seed}.png",
    show_default=True,
    help="The .png, .jpg or .webp file to write; {seed} stands for the seed.",
)
@click.option(
    "--timeline",
    type=FILE,
    help="Write the activity of each network and the memory: FILE.svg, .png or .json.",
    metavar="FILE",
)
@click.option(
    "--previews", type=FOLDER, metavar="FOLDER", help="Write previews of unfinished images to this folder."
)
@click.option(
    "--preview-every",
    type=options.STEPS,
    default=5,
    show_default=True,
    help="Steps between two previews; each run of the U-Net is one.",
)
@options.size("The size of the images")
@click.option("--tiles", is_flag=True, help="Run the autoencoder in tiles, for less memory.")
@click.option("--verify", is_flag=True, help="Check the SHA-256 of each network first.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each image.")
@options.force("Replace existing images.")
def generate(
    out: Path,
    make_requests: MakeRequests,
    settings: dict[str, Any],
    output: Path,
    timeline: Path | None,
    previews: Path | None,
    preview_every: int,
    size: ImageSize | None,
    tiles: bool,
    verify: bool,
    as_json: bool,
    force: bool,
) -> None:
    """Generate images with the files that msd-convert wrote to the folder OUT.

    \b
    Examples:
      msd generate demo-out -p "two red circles over a plain green background"
      msd generate demo-out -p "one blue star" --seed 7 --count 3 -o star.png
      msd generate out -p "a watercolour" --image photo.jpg --strength 0.6 -o watercolour.png
    """
    start = time.perf_counter()
    if previews is None:
        options.refuse_given(("preview_every",), "without --previews")
    with _processes_ahead(**settings) as processes, ExitStack() as stack:
        from msd.bundle import open_bundle  # imported while the processes open the GPU
        from msd.conversion.sizes.pick import one_size
        from msd.run.runtime.image import check_output, image_paths
        from msd.run.runtime.pipeline import Pipeline

        bundle = stack.enter_context(one_size(open_bundle(out, verify), size, tiles))
        requests = make_requests(bundle)
        paths = image_paths(output, [request.seed for request in requests])
        options.require_different(timeline, *paths)
        for path in paths:
            check_output(path, force)
        on_preview, lost = None, list[OutputUnwritable | OutputExists]()
        if previews:
            runs = _runs(bundle, settings["scheduler"], requests)
            on_preview = _preview_writer(previews, preview_every, runs, force, lost)
        made = MadeImages(paths, force, decoded_last=settings["execution"] == "sequential")
        stack.callback(made.finish, as_json)
        with (
            _record(settings["execution"], timeline, force) as recorder,
            Pipeline(bundle, recorder=recorder, processes=processes, **settings) as pipeline,
        ):
            _generate(pipeline, requests, made, on_preview)
        if processes:
            processes.kill()  # they end while the last image is saved
    if len(paths) > 1:
        say(f"{counted(len(paths), 'image')} in {time.perf_counter() - start:.3f} s", err=True)
    if lost:
        raise SystemExit(Failure.exit_code)


@contextmanager
def _processes_ahead(
    backend: str, precision: Precision, gpu_api: GpuApi | None, execution: Execution, **others: Any
) -> Iterator[Processes | None]:
    """Start a process for each of the networks that load side by side, before the bundle is read.

    Yield None for a backend that cannot, or where a driver must be installed first.
    """
    from msd.run.runners.registry import find_backend
    from msd.run.runners.runner import Conditions

    start = find_backend(backend, generating=True).ahead
    count = 1 if execution == "sequential" else 2
    started = start(Conditions(precision=precision, gpu_api=gpu_api), count) if start else None
    with started or nullcontext() as processes:
        yield processes


def _generate(
    pipeline: Pipeline, requests: Sequence[Request], made: MadeImages, on_preview: OnPreview | None
) -> None:
    """Make the images.

    Unless they are refused, says what of the requests is not used, and what is done to the image. What only
    the networks on the GPU tell is said after the images.
    """
    from msd.run.runtime.needs import require_possible

    require_possible(pipeline.bundle, requests)
    say_adapter(pipeline.engine)
    said = _say_remarks(pipeline, requests)
    _say_what_is_read(requests[0])
    if not requests[0].image:
        say_least_steps(pipeline.bundle, requests[0].steps)
    with step_progress() as show:

        def on_step(done: int, total: int, seconds: float) -> None:
            made.on_step(done, total, seconds)
            show(done, total, seconds)

        pipeline.generate_all(requests, on_step, on_preview=on_preview, on_image=made.on_image)
    _say_remarks(pipeline, requests, said)


def _say_remarks(pipeline: Pipeline, requests: Sequence[Request], said: Sequence[str] = ()) -> list[str]:
    """Print and return what of the requests is not used, but for what was `said` before."""
    remarks = dict.fromkeys(remark for request in requests for remark in pipeline.remarks(request))
    new = [remark for remark in remarks if remark not in said]
    for remark in new:
        say(f"warning: {remark}", err=True)
    return new


@contextmanager
def _record(execution: str, timeline: Path | None, force: bool) -> Iterator[TimelineRecorder | None]:
    """Record a timeline of the `with` block and write it if all went well; None without a file for it."""
    from msd.run.runtime.timeline import TimelineRecorder
    from msd.run.runtime.timeline_plot import check_timeline, save_timeline

    if timeline is None:
        yield None
        return
    check_timeline(timeline)
    require_writable(timeline, force)
    with TimelineRecorder(execution) as recorder:
        yield recorder
    save_timeline(recorder.timeline, timeline, force)


def _runs(bundle: Bundle, scheduler: str | None, requests: Sequence[Request]) -> dict[int, int]:
    """Return how often the denoiser runs for the image of each seed."""
    from msd.run.runtime.needs import strength_of
    from msd.run.runtime.scheduler import bundle_scheduler

    chosen = bundle_scheduler(bundle, scheduler)
    return {each.seed: len(chosen.table(each.steps, strength_of(bundle, each)).steps) for each in requests}


def _preview_writer(
    folder: Path,
    every: int,
    runs: Mapping[int, int],
    force: bool,
    lost: list[OutputUnwritable | OutputExists],
) -> OnPreview:
    """Return a function that writes previews to a folder, SEED-RUN.png; refuse existing ones.

    `runs`: how often the denoiser runs for the image of each seed. A preview that cannot be written ends no
    image: the reason goes to `lost`, and the first one to stderr.
    """
    from msd.files.unwritable import raises_unwritable
    from msd.run.runtime.image import GeneratedImage, check_output, save_image

    def path(seed: int, number: int) -> Path:
        return folder / f"{seed}-{number:03}.png"

    def write(preview: Preview) -> None:
        if preview.number % every == 0:
            metadata = {"seed": preview.seed, "step": preview.number, "steps": preview.total}
            image = GeneratedImage(preview.pixels(), preview.latents, metadata)
            try:
                save_image(image, path(preview.seed, preview.number), force)
            except (OutputUnwritable, OutputExists) as problem:
                if not lost:
                    say(f"error: {problem}; images are made all the same", err=True)
                lost.append(problem)

    if every > (most := max(runs.values())):
        raise click.UsageError(
            f"--previews shows one in {every} of the {counted(most, 'run')} of the U-Net: none;"
            " give --preview-every."
        )
    with raises_unwritable(folder, folder):
        folder.mkdir(exist_ok=True)
    for seed, last in runs.items():
        for number in range(every, last + 1, every):
            check_output(path(seed, number), force)
    return write


def _say_what_is_read(request: Request) -> None:
    if request.image:
        say(request.image.description, err=True)
    for control in request.controls:
        say(f"{control.name} steers by {control.description}", err=True)
