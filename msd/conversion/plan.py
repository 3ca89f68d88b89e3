"""The plan of a conversion, from the headers of a checkpoint and the structures that are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msd.compress.encoding.encode import is_table, stored_bits
from msd.conversion.component import Changes, prepare
from msd.conversion.job import Job, open_job
from msd.conversion.prune import require_prunable
from msd.conversion.settings import Settings
from msd.conversion.trace import unread_tensors
from msd.graph.ir import Model
from msd.graph.prediction.memory import estimate
from msd.graph.tflite.write import file_bytes
from msd.models.structure_cache import is_cached

LITERT = "litert-gpu"
"""The delegate that runs the files of a recipe that is for none."""


@dataclass(frozen=True)
class Needs:
    """The bytes that a network takes: its files, the GPU's memory, and the most while it is opened.

    The GPU's are predicted for the plan's device in float16, weights and activations of all of its files,
    which are open side by side. At the peak the largest file is mapped beside them.
    """

    disk: int
    gpu: int
    peak: int


@dataclass(frozen=True)
class Plan:
    """The files that a conversion would write, with parameters and bytes, and the image size.

    The bytes are those of the whole files; of the `estimated` ones, whose graphs are not known yet, they are
    those of the weights before pruning, and about right. `left_out` are components that the model needs, and
    of which the checkpoint has no weights. `needs` are by component, of those whose graphs are known.
    """

    parameters: dict[str, int]
    bytes: dict[str, int]
    height: int
    width: int
    recipe: str = ""
    device: str = ""
    needs: dict[str, Needs] = field(default_factory=dict)
    estimated: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def plan(source: Path, settings: Settings) -> Plan:
    """Return the plan of a conversion; raises what opening a checkpoint and rewriting its graphs raise.

    It reads headers of weights only, and traces nothing but what is pruned: of networks whose structure is
    known, as those of public models are, it checks the tensors and counts the bytes.
    """
    job = open_job(source, settings)
    require_prunable(job)
    traced = [name for name in job.components if is_cached(job.networks[name])]
    sizes = Counter[str]()
    for name in job.components:
        for tensor, weights in job.checkpoint.weights[name].items():
            sizes[_file_of(job, name, tensor)] += weights.size
    about = stored_bytes(job, job.components)
    known, needs = dict[str, int](), dict[str, Needs]()
    for name in (name for name in job.components if _is_known(job, name)):
        files = _files(job, name)
        disk = {file: file_bytes(model) for file, model in files.items()}
        known |= disk
        needs[name] = _needs(job, files, [*disk.values()])
    about = _divided_in_halves(job, about, known)
    height, width = job.size.pixels
    return Plan(
        parameters=_divided_in_halves(job, sizes, known),
        bytes=about | known,
        height=height,
        width=width,
        recipe=job.settings.recipe.name,
        device=job.settings.target.device.name,
        needs=needs,
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


def _files(job: Job, name: str) -> dict[str, Model]:
    """Return the models of a component's files."""
    files = prepare(job, name, Changes(), lambda stage, done, total: None).files
    return {file: prepared.model for file, prepared in files.items()}


def _needs(job: Job, files: Mapping[str, Model], disk: Sequence[int]) -> Needs:
    """Return what a network with these files, of the sizes `disk`, takes."""
    device = job.settings.target.device.under(job.settings.recipe.delegate or LITERT)
    gpu = sum(max(estimate(graph, device).bytes for graph in model.graphs) for model in files.values())
    return Needs(disk=sum(disk), gpu=gpu, peak=gpu + max(disk))


def _divided_in_halves(job: Job, of_networks: Mapping[str, int], known: Mapping[str, int]) -> dict[str, int]:
    """Return numbers of networks, that of the denoiser as those of its halves where it is split."""
    denoiser = job.family.denoiser
    first, name = denoiser.first_half, denoiser.name
    if not job.settings.split or first is None or name not in of_networks:
        return dict(of_networks)
    share = known[first] / (known[first] + known[name]) if first in known else 0.5
    half = round(of_networks[name] * share)
    halves = {first: half, name: of_networks[name] - half}
    return {
        key: n
        for each, whole in of_networks.items()
        for key, n in (halves if each == name else {each: whole}).items()
    }


def _file_of(job: Job, name: str, tensor: str) -> str:
    """Return the file that has a tensor of a component."""
    lookup = job.family.component(name).lookup if job.settings.recipe.splits_lookup else None
    return lookup if lookup and is_table(tensor) else name
