"""The options of `msd generate` that describe the images, and those that describe the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from msd.bounds import MOST_GUIDANCE, MOST_IMAGES, MOST_PROMPT
from msd.cli import options
from msd.cli.backend_choice import generating_backend
from msd.cli.options import FILE
from msd.errors import BadConfig

if TYPE_CHECKING:
    from msd.bundle import Bundle
    from msd.run.runtime.control_file import ControlFile
    from msd.run.runtime.initial_image import Fit
    from msd.run.runtime.request import Request

    MakeRequests: TypeAlias = Callable[[Bundle], list[Request]]
    """Returns the requests for images of a bundle."""

OF_CONTROLS = ("control_from", "control_until", "guess", "from_photo")
SYNTAXES = click.Choice(["plain", "weights"])
EXECUTIONS = click.Choice(["pipelined", "sequential", "resident"])


def _prompt(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse text that the shell passed as bytes outside UTF-8, and text that no model reads."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise click.BadParameter("is not valid UTF-8") from error
    if len(value) > MOST_PROMPT:
        raise click.BadParameter(f"has {len(value)} letters, and at most {MOST_PROMPT} are read")
    return value


def _controls(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[ControlFile, ...]:
    """Refuse what is no name of a ControlNet with a picture."""
    if not value:
        return ()  # without NumPy: processes are started before it is imported
    from msd.run.runtime.control_file import parse_control

    try:
        return tuple(map(parse_control, value))
    except BadConfig as problem:
        raise click.BadParameter(str(problem)) from problem


def _refuse_unused_parts(controls: tuple[ControlFile, ...]) -> None:
    """Refuse a part of the steps for pictures that name none, where each names its own."""
    from msd.run.runtime.control_file import begin_open, until_open

    for option, is_read in (("control_from", begin_open), ("control_until", until_open)):
        if not is_read(controls):
            options.refuse_given((option,), "where each --control names its own part of the steps")


def _requests(
    image: Path | None,
    mask: Path | None,
    fit: Fit,
    paste: bool,
    seed: int,
    count: int,
    images: int | None,
    steps: int | None,
    guidance: float | None,
    controls: tuple[ControlFile, ...],
    control_from: float,
    control_until: float,
    from_photo: bool,
    **settings: Any,
) -> MakeRequests:
    """Return a function that returns a request for each image, with consecutive seeds.

    `images` is the former name of `count`.
    """
    if image is None:
        options.refuse_given(("mask", "strength", "image_guidance"), "without --image")
    if image is None and not controls:
        options.refuse_given(("fit",), "without --image or --control")
    if not controls:
        options.refuse_given(OF_CONTROLS, "without --control")
    if from_photo and len(controls) > 1:
        raise click.UsageError(
            "--from-photo finds the edges of one photograph, and there are several --control."
        )
    if controls:
        _refuse_unused_parts(controls)
    if mask is None:
        options.refuse_given(("paste",), "without --mask")

    def make(bundle: Bundle) -> list[Request]:
        from msd.run.runtime.control_file import read_control
        from msd.run.runtime.needs import read_initial_image
        from msd.run.runtime.request import Request, require_seeds

        require_seeds(seed, images or count)
        start = read_initial_image(bundle, image, mask, fit)
        own = bundle.manifest.images.unless(steps, guidance)
        steering = [read_control(bundle, c, control_from, control_until, fit, from_photo) for c in controls]
        common = {"steps": own.steps, "guidance": own.guidance, "image": start, "paste": paste, **settings}
        return [Request(seed=seed + i, controls=tuple(steering), **common) for i in range(images or count)]

    return make


request_options = options.gathered(
    "make_requests",
    _requests,
    click.option("-p", "--prompt", callback=_prompt, required=True, help="What the image should show."),
    click.option("-n", "--negative-prompt", callback=_prompt, default="", help="What it should not show."),
    click.option(
        "--prompt-syntax",
        type=SYNTAXES,
        default="plain",
        show_default=True,
        help="weights: (word:1.2), (word) for 1.1 and [word] for 1/1.1, as in AUTOMATIC1111's web UI.",
    ),
    click.option(
        "--seed",
        type=options.SEED,
        default=0,
        show_default=True,
        help="The same seed gives the same image.",
    ),
    click.option(
        "--count",
        type=click.IntRange(1, MOST_IMAGES),
        default=1,
        show_default=True,
        help="Number of images, with consecutive seeds.",
    ),
    click.option("--images", type=click.IntRange(1, MOST_IMAGES), hidden=True),
    click.option("--image", type=FILE, help="Begin from this image: PNG, JPEG, WebP …"),
    click.option("--mask", type=FILE, help="Repaint the image only where this one is white."),
    click.option(
        "--strength",
        type=options.Number(0, 1, open=True),
        help="How much of the image changes.  [default: 0.8; 1 with a mask]",
    ),
    click.option(
        "--fit",
        type=click.Choice(["crop", "stretch"]),
        default="crop",
        show_default=True,
        help="Crop the centre of the image to the model's aspect ratio, or distort the image.",
    ),
    click.option(
        "--control",
        "controls",
        callback=_controls,
        multiple=True,
        metavar="NAME=FILE[:SCALE[:FROM[:UNTIL]]]",
        help="Steer by this picture with the ControlNet of that name; may be repeated.  [default: scale 1]",
    ),
    click.option(
        "--control-from",
        type=options.Number(0, 1),
        default=0.0,
        show_default=True,
        help="The part of the steps before which pictures do not steer.",
    ),
    click.option(
        "--control-until",
        type=options.Number(0, 1),
        default=1.0,
        show_default=True,
        help="The part of the steps after which pictures do not steer.",
    ),
    click.option("--guess", is_flag=True, help="Steer although the prompt does not describe the picture."),
    click.option(
        "--from-photo", is_flag=True, help="Steer by Canny's edges of the picture, which is a photograph."
    ),
    click.option(
        "--paste/--no-paste",
        default=True,
        show_default=True,
        help="Restore the pixels outside the mask, which the autoencoder changes a little.",
    ),
    click.option(
        "--upscale",
        type=click.IntRange(2, 4),
        metavar="N",
        help="Enlarge the image N times, with the upscaler of msd-convert --upscaler.",
    ),
    options.steps(help="Denoising steps."),
    options.guidance(),
    click.option(
        "--image-guidance",
        type=options.Number(1, MOST_GUIDANCE),
        help="How closely a model that edits the image keeps to it.  [default: 1.5]",
    ),
)
"""The options of the images; they become the argument `make_requests`, a `MakeRequests`."""

pipeline_options = options.gathered(
    "settings",
    dict,
    options.scheduler(),
    generating_backend(),
    options.precision(),
    options.gpu_api(),
    options.threads(),
    options.float_weights(),
    click.option(
        "--execution",
        type=EXECUTIONS,
        default="pipelined",
        show_default=True,
        help="Load the next network while one runs, one at a time, or all at the start.",
    ),
)
"""The options of the run; they become the argument `settings`, arguments of `Pipeline`."""
