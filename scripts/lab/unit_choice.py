"""Seconds and memory of choosing units by reconstruction error, at full size, on few points.

Weights, latents and prompts decide neither: all are random. Seconds grow with the points.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import graph_rewrites
from msd.compress.encoding.recipe import find_recipe
from msd.compress.pruning.settings import Budget, Pruning
from msd.models.demo import CHECKPOINT
from msd.run.runners.peak_memory import peak_rss
from msd.train.distill.networks import Networks, open_networks
from msd.train.distill.passes import Points
from msd.train.distill.units import observe_points, prune_units

PRUNING = Pruning(budget=Budget(share=25), criterion="reconstruction", refit=False, components=("unet",))


def measure_choice(checkpoint: Path | None, count: int) -> dict[str, Any]:
    """Return the figures of a choice on `count` points; the checkpoint is the demo's for None."""
    teacher = open_networks(checkpoint or CHECKPOINT, "cpu")
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        observed = observe_points(teacher, [random_points(teacher, count)], graph_rewrites.load(), Path(work))
        units = prune_units(teacher, observed, find_recipe("gpu-w8"), PRUNING)
    seconds = time.perf_counter() - begun
    assert units.record
    return {
        "pruning": asdict(PRUNING),
        "points": count,
        "seconds": seconds,
        "peak_bytes": peak_rss(),
        "units": len(units.record.units),
        "removed": units.record.removed,
        "parameters": units.record.parameters,
    }


def random_points(teacher: Networks, count: int) -> Points:
    """Return points of random latents, timesteps and prompts."""
    random = torch.Generator().manual_seed(0)
    return Points(
        latents=torch.randn(count, *teacher.latent_shape, generator=random),
        timesteps=torch.randint(1000, (count,), generator=random),
        ids=teacher.token_ids(["a red circle"] * count),
        scales=torch.ones(count),
    )
