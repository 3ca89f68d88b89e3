"""The plan of a conversion, from the headers of a checkpoint and the structures that are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from msd.compress.encoding.encode import is_table, stored_bits
from msd.conversion.component import Changes, prepare
from msd.conversion.job import Job, open_job
from msd.conversion.settings import Settings
from msd.conversion.trace import unread_tensors
from msd.graph.tflite.write import file_bytes
from msd.models.structure_cache import is_cached


@dataclass(frozen=True)
class Plan:
    """The files that a conversion would write, with parameters and bytes, and the image size.

    The bytes are those of the whole files; of the `estimated` ones, whose graphs are not known yet, they are
    those of the weights before pruning, and about right. `left_out` are components that the model needs, and
    of which the checkpoint has no weights.
    """

    parameters: dict[str, int]
    bytes: dict[str, int]
    height: int
    width: int
    estimated: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def plan(source: Path, settings: Settings) -> Plan:
    """Return the plan of a conversion; raises what opening a checkpoint and rewriting its graphs raise.

    It reads headers of weights only, and traces nothing: of networks whose structure is known, as those of
    public models are, it checks the tensors and counts the bytes.
    """
    job = open_job(source, settings)
    traced = [name for name in job.components if is_cached(job.networks[name])]
    sizes = Counter[str]()
    for name in job.components:
        for tensor, weights in job.checkpoint.weights[name].items():
            sizes[_file_of(job, name, tensor)] += weights.size
    about = stored_bytes(job, job.components)
    known = dict[str, int]()
    for name in job.components:
        if _is_known(job, name):
            known |= _sizes(job, name)
    height, width = job.size.pixels
    return Plan(
        parameters=dict(sizes),
        bytes=about | known,
        height=height,
        width=width,
        estimated=tuple(file for file in about if file not in known),
        left_out=job.left_out,
        remarks=(*job.remarks, *unread_tensors(job, traced)),
    )


def stored_bytes(job: Job, names: Iterable[str]) -> dict[str, int]:
    """Return approximately how many bytes the weights of components take in each file, before pruning."""
    bits = Counter[str]()
    for name in names:
        for tensor, weights in job.checkpoint.weights[name].items():
            bits[_file_of(job, name, tensor)] += stored_bits(job.settings.recipe, name, tensor, weights)
    return {file: n // 8 for file, n in bits.items()}


def _is_known(job: Job, name: str) -> bool:
    """Whether a component's graphs need no trace, and are written as they are, without pruning."""
    cached = all(is_cached(each.networks[name]) for each in job.variants(name))
    return cached and name not in job.pruned_components


def _sizes(job: Job, name: str) -> dict[str, int]:
    """Return the bytes of a component's files."""
    files = prepare(job, name, Changes(), lambda stage, done, total: None).files
    return {file: file_bytes(prepared.model) for file, prepared in files.items()}


def _file_of(job: Job, name: str, tensor: str) -> str:
    """Return the file that has a tensor of a component."""
    lookup = job.family.component(name).lookup if job.settings.recipe.splits_lookup else None
    return lookup if lookup and is_table(tensor) else name
