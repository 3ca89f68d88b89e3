"""The calibration of a conversion, for pruning and for rounding."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from msd.bundle import Bundle
from msd.compress.pruning.observations import Observed
from msd.compress.pruning.observe import UnprunedNetworks, observe
from msd.compress.rounding.rounding import Rounding
from msd.conversion.job import Job
from msd.conversion.trace import traced_model_for_file

WriteUnpruned = Callable[[Path], Bundle]
"""Writes the checkpoint with nothing pruned into a folder, for images to calibrate with."""


def calibrate(
    job: Job, remaining: Collection[str], scratch: Path, write_unpruned: WriteUnpruned
) -> Observed | None:
    """Return the inputs of the `remaining` components that need any, which `scratch` keeps; else None.

    Raises BadCalibration.
    """
    calibration, settings = job.settings.calibration, job.settings
    pruned = job.pruned_components if {*remaining} & {*job.pruned_components} else ()
    names = job.family.ordered({*pruned, *({*remaining} & {*job.rounded_components})})
    if calibration is None or not names:
        return None
    trace = partial(traced_model_for_file, job)
    networks = UnprunedNetworks(trace, write_unpruned, settings.active_rules, settings.effective_target)
    return observe(calibration, names, networks, scratch)


def roundings(job: Job, observed: Observed | None) -> dict[str, Rounding]:
    """Return the rounding of each component that a calibration rounds."""
    if observed is None:
        return {}
    made = {}
    for name in {*observed.runs} & {*job.rounded_components}:
        folder = observed.folder / f"rounded-{name}"
        folder.mkdir()
        made[name] = Rounding(observed.runs[name], folder)
    return made
