"""Prunes components of a checkpoint before they are rewritten."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from msd.bundle import Bundle
from msd.conversion.job import Job
from msd.conversion.trace import traced_model, traced_model_for_file
from msd.encoding.encode import stored_bytes
from msd.ir import Model
from msd.pruning.observe import UnprunedNetworks, observe
from msd.pruning.prune import prune
from msd.pruning.report import PruningReport

WriteUnpruned = Callable[[Path], Bundle]
"""Writes the checkpoint with nothing pruned into a folder, for images to calibrate with."""


@dataclass(frozen=True)
class PrunedModels:
    """The pruned graphs, by component and size, with the report and the seconds that pruning took."""

    models: dict[str, tuple[Model, ...]] = field(default_factory=dict)
    report: PruningReport | None = None
    seconds: float = 0.0


def prune_components(job: Job, scratch: Path, write_unpruned: WriteUnpruned) -> PrunedModels:
    """Return the components that lose channels or heads; a budget is shared by all of them.

    A calibration keeps its inputs in `scratch`. Raises BadConfig and BadCalibration.
    """
    started = time.perf_counter()
    settings, pruning = job.settings, job.settings.pruning_of(job.family)
    names = job.pruned_components
    if pruning is None or not names:
        return PrunedModels()
    models = {name: tuple(traced_model(each, name) for each in job.variants(name)) for name in names}
    graphs = {name: first.main for name, (first, *_) in models.items()}
    others = {name: [model.main for model in rest] for name, (_, *rest) in models.items()}
    observations = None
    if settings.calibration:
        trace = partial(traced_model_for_file, job)
        networks = UnprunedNetworks(trace, write_unpruned, settings.active_rules, settings.effective_target)
        observations = observe(settings.calibration, graphs, networks, scratch)
    report = prune(graphs, pruning, partial(stored_bytes, settings.recipe), observations, others)
    return PrunedModels(models, report, round(time.perf_counter() - started, 3))
