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

if TYPE_CHECKING:
    from msd.bundle import Bundle
    from msd.run.runtime.initial_image import Fit
    from msd.run.runtime.request import Request

    MakeRequests: TypeAlias = Callable[[Bundle], list[Request]]
    """Returns the requests for images of a bundle."""

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
    **settings: Any,
) -> MakeRequests:
    """Return a function that returns a request for each image, with consecutive seeds.

    `images` is the former name of `count`.
    """
    if image is None:
        options.refuse_given(("mask", "strength", "fit", "image_guidance"), "without --image")
    if mask is None:
        options.refuse_given(("paste",), "without --mask")

    def make(bundle: Bundle) -> list[Request]:
        from msd.run.runtime.needs import read_initial_image
        from msd.run.runtime.request import Request

        start = read_initial_image(bundle, image, mask, fit)
        own = bundle.manifest.images.unless(steps, guidance)
        common = {"steps": own.steps, "guidance": own.guidance, "image": start, "paste": paste, **settings}
        return [Request(seed=seed + i, **common) for i in range(images or count)]

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
        "--paste/--no-paste",
        default=True,
        show_default=True,
        help="Restore the pixels outside the mask, which the autoencoder changes a little.",
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
