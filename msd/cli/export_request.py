"""What all exports are asked for: the folder, the output, and what the app offers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from msd.bounds import MOST_GUIDANCE
from msd.cli import options
from msd.cli.least_steps import say_least_steps
from msd.cli.plain import say
from msd.files.wording import listed

if TYPE_CHECKING:
    from msd.bundle import Bundle, ImageSize


@dataclass(frozen=True)
class ExportRequest:
    """The options of all exports, by their names."""

    bundle: Path
    output: Path
    steps: tuple[int, ...]
    scheduler: str | None
    guidance: float | None
    size: ImageSize | None
    licence: str | None
    report: Path | None
    force: bool

    @contextmanager
    def opened(self, verify: bool = False) -> Iterator[Bundle]:
        """Open the bundle of one size; refuses to choose among several: an app is built for one."""
        from msd.bundle import open_bundle
        from msd.conversion.sizes.pick import one_size
        from msd.run.runtime.ports import require_listed_ports

        bundle = open_bundle(self.bundle, verify=verify)
        sizes = bundle.manifest.configuration.sizes
        if sizes and self.size is None:
            has = listed(sizes, "or")
            raise click.UsageError(f"An export has one size of images: choose --size {has}.")
        with one_size(bundle, self.size) as picked:
            require_listed_ports(picked)
            say_least_steps(picked, min(self.steps or [picked.manifest.images.steps]))
            _say_fault(picked, self.scheduler)
            yield picked

    def offer(self, licence: str | None) -> dict[str, Any]:
        """Return the arguments of `msd.export.app.manifest.describe` that the options decide."""
        from msd.measure.report.report import load_report

        return {
            "steps": self.steps,
            "scheduler": self.scheduler,
            "guidance": self.guidance,
            "licence": licence,
            "report": load_report(self.report) if self.report else None,
        }


def _say_fault(bundle: Bundle, scheduler: str | None) -> None:
    """Say a fault of the scheduler whose tables the app gets."""
    from msd.run.runtime.scheduler import bundle_scheduler, faults_of, name_of_kind

    chosen = bundle_scheduler(bundle, scheduler)
    for fault in faults_of(name_of_kind(chosen), chosen.diffusion.prediction_type):
        say(f"warning: {fault}", err=True)


def say_unknown_licence(licence: str | None, place: str) -> None:
    """Say where the licence of the weights is missing, and what fills that `place`."""
    if licence is None:
        say(f"the licence of the weights is unknown; --licence puts it {place}", err=True)


def _not_blank(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Return the text of an option; one without words, as of an unset variable, is refused."""
    if value is not None and not value.strip():
        raise click.UsageError(f"{option.opts[0]} is empty; leave it out for the default.", context)
    return value


export_options = options.gathered(
    "request",
    ExportRequest,
    click.argument("bundle", type=options.FOLDER),
    options.output_folder(),
    click.option(
        "--steps",
        type=options.STEPS,
        multiple=True,
        show_default="the model's own, mostly 20",
        help="Denoising steps that the app offers; may be repeated, the first is its default.",
    ),
    options.scheduler(),
    click.option(
        "--guidance",
        type=options.Number(0, MOST_GUIDANCE),
        show_default="the model's own, mostly 7.5",
        help="The app's default; 1 or less: none.",
    ),
    options.size("The size of the app's images"),
    click.option("--licence", metavar="TEXT", callback=_not_blank, help="The licence of the weights."),
    click.option(
        "--report",
        type=options.FILE,
        help="A report of these files for the manifest, by delegation-report --format json.",
    ),
    options.force("Replace what is in the folder."),
)
"""The options become the argument `request`."""
