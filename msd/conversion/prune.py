"""Prunes components of a checkpoint before they are rewritten."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial

from msd.compress.encoding.encode import stored_bytes
from msd.compress.pruning.observations import Observed
from msd.compress.pruning.prune import prune, require_possible
from msd.compress.pruning.report import PruningReport
from msd.conversion.job import Job
from msd.conversion.trace import traced_model
from msd.graph.ir import Model


@dataclass(frozen=True)
class PrunedModels:
    """The pruned graphs, by component and size, with the report and the seconds that pruning took."""

    models: dict[str, tuple[Model, ...]] = field(default_factory=dict)
    report: PruningReport | None = None
    seconds: float = 0.0


def require_prunable(job: Job) -> None:
    """Raise BadConfig for a budget or a share that is impossible, before what takes long.

    Traces the components to prune where their structures are not known, which later steps then know.
    """
    pruning = job.settings.pruning_of(job.family)
    if pruning is not None and job.pruned_components:
        graphs = {name: traced_model(job.variants(name)[0], name).main for name in job.pruned_components}
        require_possible(graphs, pruning, partial(stored_bytes, job.settings.recipe))


def prune_components(job: Job, observations: Observed | None) -> PrunedModels:
    """Return the components that lose channels or heads; a budget is shared by all of them.

    Raises BadConfig and BadCalibration.
    """
    started = time.perf_counter()
    settings, pruning = job.settings, job.settings.pruning_of(job.family)
    names = job.pruned_components
    if pruning is None or not names:
        return PrunedModels()
    models = {name: tuple(traced_model(each, name) for each in job.variants(name)) for name in names}
    graphs = {name: first.main for name, (first, *_) in models.items()}
    others = {name: [model.main for model in rest] for name, (_, *rest) in models.items()}
    report = prune(graphs, pruning, partial(stored_bytes, settings.recipe), observations, others)
    return PrunedModels(models, report, round(time.perf_counter() - started, 3))
