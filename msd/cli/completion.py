"""What a shell completes in a value: names, one of them or several with commas, else a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], list[Any]]


def completes(names: Callable[[], Iterable[str]]) -> Complete:
    """Return what completes a value: one of `names`, whatever its capitals, or the name of a file."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        typed = incomplete.casefold()
        found = [CompletionItem(name) for name in names() if name.casefold().startswith(typed)]
        return found or [CompletionItem(incomplete, type="file")]

    return complete


def completes_several(names: Callable[[], Iterable[str]]) -> Complete:
    """Return what completes the last of `names` with commas between them: those that are not there yet."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        before, comma, last = incomplete.rpartition(",")
        rest = (name for name in names() if name.startswith(last) and name not in before.split(","))
        return [CompletionItem(f"{before}{comma}{name}") for name in rest]

    return complete


def devices() -> list[str]:
    """Return the names of devices and of phones, with hyphens for spaces, at which a shell parts words."""
    from msd.graph.prediction.device import phone_names, shipped

    return [*shipped(), *(name.replace(" ", "-") for name in phone_names())]


def recipes() -> list[str]:
    """Return the names of msd's recipes."""
    from msd.compress.encoding.recipe import shipped

    return shipped()


def listed_recipes() -> list[str]:
    """Return what msd-convert takes as a recipe's name."""
    return ["list", *recipes()]


def rewrites() -> list[str]:
    """Return the names of the rewrites."""
    import graph_rewrites

    return [rewrite.name for rewrite in graph_rewrites.load()]


def schedulers() -> Iterable[str]:
    """Return the names of all schedulers."""
    from msd.run.runtime.scheduler import SCHEDULERS

    return SCHEDULERS


def spellings() -> list[str]:
    """Return the names of msd's spellings."""
    from msd.graph.rewrite.spelling import shipped

    return shipped()


def interfaces() -> list[str]:
    """Return the names of the interfaces of other programs."""
    from msd.conversion.client_interface import shipped

    return shipped()


def suites() -> list[str]:
    """Return the names of msd's suites."""
    from msd.files.configs import shipped_names
    from msd.measure.regress.suite import FOLDER

    return shipped_names(FOLDER)
