"""The plan of a conversion, from the headers of a checkpoint alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from msd.conversion.job import open_job
from msd.conversion.settings import Settings
from msd.encoding.encode import is_table, stored_bits


@dataclass(frozen=True)
class Plan:
    """The files that a conversion would write, with parameters and approximate bytes, and the image size.

    `left_out` are components that the model needs, and of which the checkpoint has no weights.
    """

    parameters: dict[str, int]
    bytes: dict[str, int]
    height: int
    width: int
    left_out: tuple[str, ...] = ()


def plan(source: Path, settings: Settings) -> Plan:
    """Return the plan of a conversion; reads headers only and raises what opening a checkpoint raises."""
    job = open_job(source, settings)
    sizes, bits = Counter[str](), Counter[str]()
    for name in job.components:
        lookup = job.family.component(name).lookup if settings.recipe.splits_lookup else None
        for tensor, weights in job.checkpoint.weights[name].items():
            file = lookup if lookup and is_table(tensor) else name
            sizes[file] += weights.size
            bits[file] += stored_bits(settings.recipe, name, tensor, weights)
    height, width = job.size.pixels
    return Plan(
        parameters=dict(sizes),
        bytes={file: n // 8 for file, n in bits.items()},
        height=height,
        width=width,
        left_out=job.left_out,
    )
