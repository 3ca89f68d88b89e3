"""The options that several commands share."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

import msd as package
from msd.bounds import MOST_GUIDANCE, MOST_SEED, MOST_STEPS, MOST_THREADS
from msd.cli import completion
from msd.errors import BadConfig
from msd.models.families import component_names, file_names, optional_names
from msd.models.families.control import PREFIX

if TYPE_CHECKING:
    from msd.bundle import ImageSize

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

SEED = click.IntRange(0, MOST_SEED)
STEPS = click.IntRange(1, MOST_STEPS)
THREADS = click.IntRange(1, MOST_THREADS)
PIXELS = click.IntRange(8, 99_999)
DAY = 86_400.0
"""Seconds; the longest time limit."""

version = click.version_option(package.__version__, prog_name="msd")
"""The option of commands that are installed under names of their own."""


class LateChoice(click.ParamType[str]):
    """One of the names that `names` returns when a command is parsed, not when it is imported.

    Names that begin with `prefix`, if there is one, are not listed, and accepted.
    """

    name = "choice"

    def __init__(self, names: Callable[[], Iterable[str]], prefix: str = "") -> None:
        self.names, self._prefix = names, prefix

    @property
    def choice(self) -> click.Choice[str]:
        """The names that there are now."""
        return click.Choice(list(self.names()))

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return the names for --help."""
        return self.choice.get_metavar(param, ctx)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name; fails for one that is not among them."""
        if self._prefix and str(value).startswith(self._prefix):
            return str(value)
        return self.choice.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Return the names that begin with `incomplete`."""
        return self.choice.shell_complete(ctx, param, incomplete)


class NamedPath(click.Path):
    """A path with a name, which an empty argument has not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; fails for an empty one."""
        if not os.fspath(value):
            self.fail("the name is empty", param, ctx)
        return super().convert(value, param, ctx)


class NamedText(click.types.StringParamType):
    """A text, which an empty argument is not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text; fails for an empty one."""
        if not value:
            self.fail("the name is empty", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.FloatRange):
    """A finite number from `least` to `most`, or above `least` where that is `open`."""

    def __init__(self, least: float, most: float, open: bool = False) -> None:
        super().__init__(least, most, min_open=open)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; fails for NaN, and for one out of range."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


FILE = NamedPath(path_type=Path, dir_okay=False)
FOLDER = NamedPath(path_type=Path, file_okay=False)


class SizeType(click.ParamType["ImageSize"]):
    """A size of images in pixels, WIDTHxHEIGHT."""

    name = "size"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the form of a size for --help."""
        return "WIDTHxHEIGHT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ImageSize:
        """Return the size; fails for other text."""
        from msd.bundle import ImageSize

        match = (
            re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", value) if isinstance(value, str) else None
        )
        if match is None:
            self.fail(f"{value!r} is not WIDTHxHEIGHT in pixels, such as 384x640", param, ctx)
        return ImageSize(int(match[1]), int(match[2]))


def size(help: str) -> Callable[[Decorated], Decorated]:
    """Return --size, which picks one of the sizes of a bundle."""
    return click.option("--size", type=SizeType(), help=f"{help}, of a bundle of several sizes.")


COMPONENT = LateChoice(component_names, PREFIX)
"""A component of any family, or a ControlNet."""

OPTIONAL_COMPONENT = LateChoice(optional_names)
"""A component of any family that is not converted unless the model needs it."""

FILE_NAME = LateChoice(file_names, PREFIX)
"""A file of any family, or of a ControlNet, by its name without ending."""


def require_different(*outputs: Path | None) -> None:
    """Raise UsageError where two of these places are one, in which the last that is written would remain."""
    places = [path.resolve() for path in outputs if path]
    if twice := [path for path in places if places.count(path) > 1]:
        raise click.UsageError(f"{twice[0].name} is given for two different files; name each otherwise.")


def refuse_given(names: Iterable[str], because: str) -> None:
    """Raise UsageError where one of these parameters is on the command line: it does nothing `because`."""
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name in names and source is ParameterSource.COMMANDLINE:
            no = parameter.secondary_opts if context.params.get(parameter.name) is False else ()
            raise click.UsageError(f"{[*no, *parameter.opts][0]} does nothing {because}.")


def together(*options: Callable[[Any], Any]) -> Callable[[Decorated], Decorated]:
    """Return a decorator that adds `options`, in the order of --help."""

    def add(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def gathered(
    name: str, make: Callable[..., Any], *options: Callable[[Any], Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds `options` and passes make(**their values) as the argument `name`."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(**values: Any) -> Any:
            own = {option: values.pop(option) for option in names}
            return command(**values, **{name: make(**own)})

        return together(*options)(call)

    names = _names(options)
    return add


def _names(options: Iterable[Callable[[Any], Any]]) -> list[str]:
    """Return the names of the arguments that options pass."""

    @click.command()
    @together(*options)
    def command() -> None:
        """Only carries the options."""

    return [str(param.name) for param in command.params]


def output_folder(required: bool = True) -> Callable[[Decorated], Decorated]:
    """Return -o, the folder that a command writes."""
    return click.option("-o", "--output", type=FOLDER, required=required, help="The folder to write.")


def components(names: LateChoice = COMPONENT) -> Callable[[Decorated], Decorated]:
    """Return --component, which of `names` to measure; by default all."""
    return click.option(
        "--component",
        "components",
        type=names,
        multiple=True,
        help="Measure only this one; may be repeated.",
    )


def known_scheduler(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse an unknown scheduler, and a scale of sigmas that a scheduler does not have."""
    if value is None:
        return None
    from msd.run.runtime.scheduler import parse_name

    try:
        parse_name(value)
    except BadConfig as problem:
        raise click.BadParameter(str(problem)) from problem
    return value


def scheduler() -> Callable[[Decorated], Decorated]:
    """Return --scheduler, a name that `msd.run.runtime.scheduler.parse_name` reads."""
    return click.option(
        "--scheduler",
        callback=known_scheduler,
        metavar="NAME[+SCALE]",
        shell_complete=completion.completes(completion.schedulers),
        help="ddim, ddpm, deis, dpm++, dpm++-2s, dpm++-sde, dpm2, dpm2-a, euler, euler-a, heun, lcm, lms,"
        " pndm, tcd or unipc, some with sigmas: +karras, +exponential, +beta or +lu."
        "  [default: the checkpoint's own]",
    )


def steps(help: str) -> Callable[[Decorated], Decorated]:
    """Return --steps, None where the manifest of the converted files decides."""
    return click.option(
        "--steps",
        type=STEPS,
        show_default="the model's own, mostly 20",
        help=help,
    )


def guidance() -> Callable[[Decorated], Decorated]:
    """Return --guidance, None where the manifest of the converted files decides."""
    return click.option(
        "--guidance",
        type=Number(0, MOST_GUIDANCE),
        show_default="the model's own, mostly 7.5",
        help="1 or less: none.",
    )


def json_result() -> Callable[[Decorated], Decorated]:
    """Return --json, which prints the result for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON on stdout.")


def force(help: str) -> Callable[[Decorated], Decorated]:
    """Return --force, which replaces existing output."""
    return click.option("--force", is_flag=True, help=help)


def threads() -> Callable[[Decorated], Decorated]:
    """Return --threads, the number of threads on the CPU."""
    return click.option("--threads", type=THREADS, show_default="one per core", help="Threads on the CPU.")


def precision() -> Callable[[Decorated], Decorated]:
    """Return --precision, fp32 or fp16."""
    return click.option(
        "--precision",
        type=click.Choice(["fp32", "fp16"]),
        default="fp32",
        show_default=True,
        help="Precision of a GPU's arithmetic.",
    )


def gpu_api() -> Callable[[Decorated], Decorated]:
    """Return --gpu-api, the implementation of WebGPU."""
    return click.option(
        "--gpu-api",
        type=click.Choice(["dawn", "wgpu"]),
        show_default="dawn where it is installed and takes the driver, else wgpu",
        help="WebGPU's implementation: Dawn, from pip install 'msd[dawn]', or wgpu-native.",
    )


def float_weights() -> Callable[[Decorated], Decorated]:
    """Return --float-weights and --dynamic-range, how a CPU computes with integers."""
    return click.option(
        "--float-weights/--dynamic-range",
        default=True,
        show_default=True,
        help="CPU, int8 weights: float arithmetic, as on a GPU, or faster with inputs rounded to 8 bits.",
    )


def json_files() -> Callable[[Decorated], Decorated]:
    """Return --json, which prints for programs what was written."""
    return click.option("--json", "as_json", is_flag=True, help="Print what was written, as JSON.")


def _result_file(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Refuse a name whose suffix promises another format."""
    if value is not None and value.suffix.lower() not in ("", ".json", ".md"):
        raise click.BadParameter(f"{value} ends in {value.suffix!r}; .json and .md can be written")
    return value


def is_markdown(path: Path) -> bool:
    """Whether a result goes to this file as tables: by its suffix, in capitals too."""
    return path.suffix.lower() == ".md"


tables = together(
    click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout instead of tables."),
    click.option(
        "-o",
        "--output",
        type=FILE,
        callback=_result_file,
        help="Write JSON to this file, or tables where it ends in .md.",
    ),
)
"""The options of a command that prints tables."""

DRAWN = ("steps", "kept", "guidance", "seed")


def _calibration(**values: Any) -> Any:
    """Return the calibration, refusing what a folder of recorded inputs leaves without use."""
    from msd.compress.calibration.generated_inputs import Calibration

    if (given := values["given"]) is not None and given.is_dir():
        refuse_given(DRAWN, f"with --calibration {given}, a folder of recorded inputs")
    return Calibration(**values)


calibration = gathered(
    "calibration",
    _calibration,
    click.option(
        "--calibration",
        "given",
        type=NamedPath(path_type=Path),
        metavar="PROMPTS.txt|FOLDER|random-words",
        help="Prompts, one per line, a folder of .npz inputs, or random words."
        "  [default: the demo's captions]",
    ),
    steps(help="Denoising steps of an image."),
    click.option(
        "--kept-steps",
        "kept",
        type=STEPS,
        default=4,
        show_default=True,
        help="Steps to measure on, spaced evenly.",
    ),
    guidance(),
    click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of the first image."),
)
"""The options become the argument `calibration`, a `Calibration`; there is one for each of its fields."""
