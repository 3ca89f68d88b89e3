"""The plan of a conversion, from the headers of a checkpoint alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from msd.compress.encoding.encode import is_table, stored_bits
from msd.conversion.job import Job, open_job
from msd.conversion.settings import Settings
from msd.conversion.trace import unread_tensors
from msd.models.structure_cache import is_cached


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
    remarks: tuple[str, ...] = ()


def plan(source: Path, settings: Settings) -> Plan:
    """Return the plan of a conversion; reads headers only and raises what opening a checkpoint raises.

    Where a network's structure is known, as those of public models are, its tensors are checked: nothing is
    traced.
    """
    job = open_job(source, settings)
    known = [name for name in job.components if is_cached(job.networks[name])]
    sizes = Counter[str]()
    for name in job.components:
        for tensor, weights in job.checkpoint.weights[name].items():
            sizes[_file_of(job, name, tensor)] += weights.size
    height, width = job.size.pixels
    return Plan(
        parameters=dict(sizes),
        bytes=stored_bytes(job, job.components),
        height=height,
        width=width,
        left_out=job.left_out,
        remarks=(*job.remarks, *unread_tensors(job, known)),
    )


def stored_bytes(job: Job, names: Iterable[str]) -> dict[str, int]:
    """Return approximately how many bytes the weights of components take in each file, before pruning."""
    bits = Counter[str]()
    for name in names:
        for tensor, weights in job.checkpoint.weights[name].items():
            bits[_file_of(job, name, tensor)] += stored_bits(job.settings.recipe, name, tensor, weights)
    return {file: n // 8 for file, n in bits.items()}


def _file_of(job: Job, name: str, tensor: str) -> str:
    """Return the file that has a tensor of a component."""
    lookup = job.family.component(name).lookup if job.settings.recipe.splits_lookup else None
    return lookup if lookup and is_table(tensor) else name
