"""Measure the components of one bundle, or of two in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from msd.bench.result import Measurement
from msd.bench.timings import Effort, interleaved, summarise
from msd.bench.trial import Place, Trial
from msd.bundle import Bundle

Told = Callable[[str], None]
"""Told what is being done, in a few words."""


def measure(
    bundles: Sequence[Bundle], component: str, place: Place, effort: Effort, told: Told
) -> list[Measurement]:
    """Return a measurement of `component` of each bundle; all are loaded, and their runs take turns.

    Raises BadBundle where a bundle lacks it, and what `Trial` raises.
    """
    with ExitStack() as stack:
        trials: list[Trial] = []
        for bundle in bundles:
            told(f"loading {bundle.path(component)}")
            trial = Trial(component, bundle.path(component), place.of(bundle, component))
            trials.append(stack.enter_context(trial))
        told("first run")
        firsts = [trial.run() for trial in trials]
        runs = [trial.run for trial in trials]
        warming = Effort(effort.warmups, 0, 0.0, effort.max_seconds)
        warmups = interleaved(runs, warming, lambda count, seconds: told(f"warm-up {count}"))
        taken = interleaved(runs, effort, lambda count, seconds: told(f"run {count}, {seconds:.3f} s"))
        return [
            trial.measurement(summarise(trial.init, first, warm, each))
            for trial, first, warm, each in zip(trials, firsts, warmups, taken, strict=True)
        ]
