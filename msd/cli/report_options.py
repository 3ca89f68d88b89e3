"""Values of `delegation-report`'s options, read by click's callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from msd.cli import options
from msd.cli.completion import completes_several
from msd.cli.report_files import Shapes
from msd.files.wording import listed

CONDITIONS = ("rejected", "wrong", "unknown", "reported", "note", "run", "disagreement", "worse", "audit")
DEFAULT_CONDITIONS = ("rejected", "wrong", "unknown", "run", "audit")
OF_A_RUN = ("precision", "timeout", "memory", "pieces")
"""The parameters that say how the real delegate runs."""


def words(among: Sequence[str]) -> Callable[[click.Context, click.Parameter, str], tuple[str, ...]]:
    """Return a click callback that reads words separated by commas, each one of `among`."""

    def read(ctx: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
        words = tuple(dict.fromkeys(filter(None, value.split(","))))
        if unknown := [word for word in words if word not in among]:
            raise click.BadParameter(f"{', '.join(unknown)} is not among {', '.join(among)}")
        return words

    return read


fail_on_option = click.option(
    "--fail-on",
    callback=words(CONDITIONS),
    default=",".join(DEFAULT_CONDITIONS),
    show_default=True,
    metavar="WORD,…",
    shell_complete=completes_several(lambda: CONDITIONS),
    help=f"End with exit code 3 on any of these: {listed(CONDITIONS, 'or')}.",
)


def refuse_useless(run: bool, measured: bool, writes: bool) -> None:
    """Refuse options that say how the delegate runs where it does not, and --force without a file."""
    if not run:
        options.refuse_given(OF_A_RUN, "with --no-run")
    if measured:
        options.refuse_given(OF_A_RUN, "with --from, which takes the place of a run")
    if not writes:
        options.refuse_given(("force",), "without --output")


def parts(ctx: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Return the words of `value`, separated by commas, each once."""
    return tuple(dict.fromkeys(filter(None, value.split(","))))


def shapes_by_name(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> Shapes:
    """Return the shapes by name; a value is NAME=1,64,64,4."""
    shapes: dict[str, tuple[int, ...]] = {}
    for value in values:
        name, _, sizes = value.rpartition("=")
        numbers = sizes.split(",")
        if not name or not all(number.isascii() and number.isdigit() and int(number) for number in numbers):
            raise click.BadParameter(f"{value} is no shape of an input; write NAME=1,64,64,4")
        shapes[name] = tuple(map(int, numbers))
    return shapes
