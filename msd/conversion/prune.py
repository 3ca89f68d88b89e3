"""The components of a checkpoint that a conversion prunes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from msd.bundle import Bundle
from msd.conversion.job import Job
from msd.conversion.trace import traced, traced_for_file
from msd.encoding.encode import stored_bytes
from msd.ir import Model
from msd.pruning.observe import UnprunedNetworks, observe
from msd.pruning.prune import prune
from msd.pruning.report import PruningReport

WriteUnpruned = Callable[[Path], Bundle]
"""Writes the checkpoint with nothing pruned into a folder, for images to calibrate with."""


@dataclass(frozen=True)
class PrunedModels:
    """Graphs after pruning, by component, with the report of it and the seconds it took."""

    models: dict[str, Model] = field(default_factory=dict)
    report: PruningReport | None = None
    seconds: float = 0.0


def prune_components(job: Job, scratch: Path, write_unpruned: WriteUnpruned) -> PrunedModels:
    """Return the components that lose channels or heads; a budget is shared by all of them.

    A calibration keeps its inputs in `scratch`. Raises BadConfig and BadCalibration.
    """
    started = time.perf_counter()
    settings, wanted = job.settings, job.settings.pruning_of(job.family)
    names = settings.pruned(job.family)
    if wanted is None or not names:
        return PrunedModels()
    models = {name: traced(job, name) for name in names}
    graphs = {name: model.main for name, model in models.items()}
    observed = None
    if settings.calibration:
        feed = partial(traced_for_file, job)
        networks = UnprunedNetworks(feed, write_unpruned, settings.applied, settings.aim)
        observed = observe(settings.calibration, graphs, networks, scratch)
    report = prune(graphs, wanted, partial(stored_bytes, settings.recipe), observed)
    return PrunedModels(models, report, round(time.perf_counter() - started, 3))
