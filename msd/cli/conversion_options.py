"""The options of `msd-convert`, made from those of a conversion."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from msd.cli import completion, options
from msd.conversion.options import ConversionOptions, Option
from msd.conversion.options import options as stated_options

Parse = Callable[..., Any]

TYPES: dict[str, Any] = {
    "components": options.COMPONENT,
    "also": options.OPTIONAL_COMPONENT,
    "sizes": options.SizeType(),
    "height": options.PIXELS,
    "width": options.PIXELS,
    "vae": options.NamedPath(path_type=Path),
}
"""The types on the command line of what is more than a text, a number or a path."""


def _loras(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> list[Any]:
    from msd.conversion.sources import lora

    return [*map(lora.parse, value)]


def _inversions(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> list[Any]:
    from msd.conversion.sources import embedding

    return [*map(embedding.parse, value)]


def _controlnets(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> list[Any]:
    from msd.conversion.sources import controlnet

    return [*map(controlnet.parse, value)]


EXPERT = (
    *("networks", "height", "width", "split", "gelu_clip", "spelling", "attention", "interface", "without"),
    *("prune", "refit", "jobs"),
)
"""The options that --help lists last."""


def model_options(besides: Collection[str]) -> tuple[str, ...]:
    """Return the names of the options of the model, in the order of --help."""
    return tuple(name for name in stated_options() if name not in besides and name not in EXPERT)


CALLBACKS: dict[str, Parse] = {
    "lora": _loras,
    "embeddings": _inversions,
    "controlnets": _controlnets,
}
"""What reads a value further, or refuses it."""


COMPLETIONS: dict[str, Callable[[], Iterable[str]]] = {
    "recipe": completion.listed_recipes,
    "device": completion.devices,
    "spelling": completion.spellings,
    "interface": completion.interfaces,
    "scheduler": completion.schedulers,
    "without": completion.rewrites,
}
"""The names that a shell completes."""


def _click_option(name: str, default: Any, stated: Option) -> Any:
    """Return the option of a command line."""
    flag = stated.flag or f"--{name.replace('_', '-')}"
    metavar = stated.metavar or ("NAME|FILE" if stated.value.words.startswith("a name or") else None)
    settings: dict[str, Any] = {"help": _help(stated, default), "callback": CALLBACKS.get(name)}
    if name in COMPLETIONS:
        settings["shell_complete"] = completion.completes(COMPLETIONS[name])
    if stated.value.kind == "flag":
        return click.option(flag, name, flag_value=not default, default=default, **settings)
    if isinstance(default, tuple):
        settings["multiple"] = True
    elif default is not None:
        settings |= {"default": default, "show_default": True}
    return click.option(flag, name, type=TYPES.get(name, _type(stated)), metavar=metavar, **settings)


def _help(stated: Option, default: Any) -> str:
    return stated.help if stated.shown is None else f"{stated.help}  [default: {stated.shown}]"


def _type(stated: Option) -> Any:
    least, most = stated.value.bounds
    if stated.value.kind == "whole":
        return click.IntRange(int(least), int(most))
    if stated.value.kind == "number":
        return options.Number(least, most)
    if stated.value.kind == "choice":
        return click.Choice(stated.value.choices)
    return options.NamedPath(path_type=Path) if stated.value.kind == "path" else options.NamedText()


def _options() -> list[Any]:
    defaults = {each.name: each.default for each in fields(ConversionOptions)}
    return [
        _click_option(name, defaults[name], stated)
        for name, stated in stated_options().items()
        if name != "force"
    ]


def _given(**values: Any) -> dict[str, Any]:
    return values


conversion_options = options.gathered("given", _given, *_options())
"""The options become the argument `given`, the keywords of `ConversionOptions` but `force`."""
