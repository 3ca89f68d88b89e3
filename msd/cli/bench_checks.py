"""What `msd bench` refuses of its options, or says that they do nothing, before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from msd.cli import options
from msd.cli.backend_choice import refuse_unused_conditions, say_adapter
from msd.cli.plain import say

if TYPE_CHECKING:
    from msd.bundle import Bundle
    from msd.measure.bench.run import BenchSettings

MEASURING_OPTIONS = (
    *("backends", "components", "draw", "precision", "threads", "float_weights", "execution"),
    *("repeats", "warmups", "min_seconds", "max_seconds"),
)
"""The parameters that say what to measure, and how."""


def refuse_useless(measured: Path | None, components: Sequence[str], draw: int) -> None:
    """Refuse options that say how to measure what is not measured."""
    if measured:
        options.refuse_given(MEASURING_OPTIONS, "with --from, which measures nothing")
    if components:
        options.refuse_given(("draw", "execution"), "with --component, which generates no image")
    if not draw:
        options.refuse_given(("execution",), "with --draw 0, which generates no image")


def refuse_alone(fail_slower: float | None, measured: Path | None, other: Path | None) -> None:
    """Refuse what compares without --compare, and --compare of what shows one bundle."""
    if fail_slower and other is None:
        raise click.UsageError("--fail-slower compares with --compare OTHER.")
    if measured and other:
        raise click.UsageError("--from shows one bundle; leave out --compare.")


def check_options(picked: Sequence[Bundle], names: Sequence[Path], settings: BenchSettings) -> None:
    """Refuse options that do nothing for these bundles, called `names`, and say where no image is generated.

    Also what `say_adapter` says. Raises BadConfig for steps that a model cannot take, and what it raises.
    """
    from msd.run.runners.engine import Engine
    from msd.run.runners.registry import find_backend

    _check_conditions(picked, settings)
    _check_images(picked, names, settings)
    for name in settings.backends:
        say_adapter(Engine(find_backend(name), settings.conditions))


def _check_images(picked: Sequence[Bundle], names: Sequence[Path], settings: BenchSettings) -> None:
    from msd.measure.bench.image_time import is_timed, require_steps

    measured = [settings.components or tuple(bundle.manifest.components) for bundle in picked]
    timed = [each for each, components in zip(picked, measured, strict=True) if is_timed(each, components)]
    for bundle in timed:
        require_steps(bundle, settings.steps)
    if settings.draw and not settings.components:
        _check_generated(picked, names, settings)
    if not timed:
        options.refuse_given(("steps",), "where not all networks of an image are measured")


def _check_generated(picked: Sequence[Bundle], names: Sequence[Path], settings: BenchSettings) -> None:
    from msd.measure.bench.image_time import require_steps, why_none
    from msd.run.runners.registry import find_backend

    if not any(find_backend(name).open for name in settings.backends):
        options.refuse_given(
            ("draw", "execution"), f"on {settings.backends[0]}, which only measures networks"
        )
        return
    for bundle, name in zip(picked, names, strict=True):
        if why := why_none(bundle, name):
            say(f"note: no image is generated: {why}", err=True)
        else:
            require_steps(bundle, settings.draw)


def _check_conditions(picked: Sequence[Bundle], settings: BenchSettings) -> None:
    """Refuse conditions that no measured file uses, and say of dynamic range that it changes none."""
    from msd.run.runners.engine import Engine
    from msd.run.runners.registry import find_backend

    files = {
        bundle.path(name): file.runs_on
        for bundle in picked
        for name, file in bundle.manifest.components.items()
        if name in (settings.components or bundle.manifest.components)
    }
    refuse_unused_conditions(settings.backends, {*files.values()})
    engines = (Engine(find_backend(name), settings.conditions) for name in settings.backends)
    for sentence in dict.fromkeys(sentence for engine in engines for sentence in engine.idle(files)):
        say(f"note: {sentence}", err=True)
