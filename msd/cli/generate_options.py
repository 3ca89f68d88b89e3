"""The options of `msd generate` that describe the images, and those that describe the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from msd.cli import options
from msd.cli.backend_choice import GENERATING

if TYPE_CHECKING:
    from msd.runtime.request import Request

PRECISIONS = click.Choice(["fp32", "fp16"])
SYNTAXES = click.Choice(["plain", "weights"])
EXECUTIONS = click.Choice(["pipelined", "sequential", "resident"])


def _known_scheduler(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse an unknown scheduler."""
    from msd.runtime.scheduler import SCHEDULERS

    if value is not None and value not in SCHEDULERS:
        raise click.BadParameter(f"{value!r} is none of {', '.join(SCHEDULERS)}")
    return value


def _utf8(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse text that the shell passed as bytes outside UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise click.BadParameter("is not valid UTF-8") from error
    return value


def _requests(seed: int, images: int, **settings: Any) -> list[Request]:
    """Return a request for each image, with consecutive seeds."""
    from msd.runtime.request import Request

    return [Request(seed=seed + i, **settings) for i in range(images)]


request_options = options.gathered(
    "requests",
    _requests,
    click.option("--prompt", callback=_utf8, required=True, help="What the image should show."),
    click.option("--negative-prompt", callback=_utf8, default="", help="What it should not show."),
    click.option(
        "--prompt-syntax",
        type=SYNTAXES,
        default="plain",
        show_default=True,
        help="weights: (word:1.2), (word) for 1.1 and [word] for 1/1.1, as in AUTOMATIC1111's web UI.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="The same seed gives the same image.",
    ),
    click.option(
        "--images",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="Number of images, with consecutive seeds.",
    ),
    click.option("--steps", type=click.IntRange(1), default=20, show_default=True, help="Denoising steps."),
    click.option(
        "--guidance", type=click.FloatRange(0), default=7.5, show_default=True, help="1 or less: none."
    ),
)
"""The options of the images; they become the argument `requests`, a list of `Request`."""

pipeline_options = options.gathered(
    "settings",
    dict,
    options.scheduler(_known_scheduler),
    click.option(
        "--backend", type=GENERATING, default="cpu", show_default=True, help="Where the networks run."
    ),
    click.option(
        "--precision",
        type=PRECISIONS,
        default="fp32",
        show_default=True,
        help="Precision of a GPU's arithmetic.",
    ),
    click.option(
        "--threads", type=click.IntRange(1), show_default="one per core", help="Threads on the CPU."
    ),
    click.option(
        "--float-weights/--dynamic-range",
        default=True,
        show_default=True,
        help="CPU, int8 weights: float arithmetic, as on a GPU, or faster with inputs rounded to 8 bits.",
    ),
    click.option(
        "--execution",
        type=EXECUTIONS,
        default="pipelined",
        show_default=True,
        help="Load the next network while one runs, one at a time, or all at the start.",
    ),
)
"""The options of the run; they become the argument `settings`, arguments of `Pipeline`."""
