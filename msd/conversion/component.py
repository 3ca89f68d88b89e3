"""One component: its graph rewritten and encoded, then written to its files and read back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from msd.bundle import ConvertedFile, RunsOn
from msd.compress.encoding.compatibility import require_supported
from msd.compress.encoding.encode import Encoding, encode, nothing_rounded
from msd.compress.rounding.rounding import Rounding
from msd.conversion.activations import RULE, Reached, too_large
from msd.conversion.client_ports import bind
from msd.conversion.composite_attention import compose_attention
from msd.conversion.job import Job
from msd.conversion.manifest import describe_file, image_sizes
from msd.conversion.prune import PrunedModels
from msd.conversion.settings import Settings
from msd.conversion.sizes.share import SharedFile, together
from msd.conversion.stopwatch import Stopwatch
from msd.conversion.time_embeddings import time_embedding_table
from msd.conversion.trace import traced_model
from msd.errors import BadConfig
from msd.files.disk import sync
from msd.graph import tflite
from msd.graph.ir import Model
from msd.graph.ir.embedding_lookup import split_lookup
from msd.graph.ir.halves import split_halves
from msd.graph.ledger import ComponentLedger
from msd.graph.rewrite import Ledger, apply, ops_by_kind
from msd.models.families import Component

OnStage = Callable[[str, int, int], None]
"""Called with the stage of a component, how much of it is done, and the total."""


@dataclass(frozen=True)
class Changes:
    """What a conversion changes by what it observed: pruned graphs, how components are rounded, by name, and
    what their activations reach where that may be too large, which is awaited when it is needed.
    """

    pruned: PrunedModels = field(default_factory=PrunedModels)
    roundings: Mapping[str, Rounding] = field(default_factory=dict)
    reached: Mapping[str, Future[Reached]] = field(default_factory=dict)


@dataclass(frozen=True)
class PreparedFile:
    """A file to write: its model, and the processor that it is for."""

    model: Model
    runs_on: RunsOn


@dataclass(frozen=True)
class PreparedComponent:
    """A component that is ready to be written, its files by name; all checks have accepted it.

    `shared` describes those files that have several sizes; the ledger and the encoding are of the first.
    `beside` computes the files that another program reads beside them, by name; `remarks` are as in
    `WrittenComponent`.
    """

    files: dict[str, PreparedFile]
    ledger: ComponentLedger
    encoding: Encoding
    stopwatch: Stopwatch
    shared: tuple[SharedFile, ...] = ()
    beside: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def weights(self) -> int:
        """The number of weights in its files."""
        models = (file.model for file in self.files.values())
        return sum(t.size for model in models for t in model.main.tensors() if t.data is not None)


@dataclass(frozen=True)
class WrittenComponent:
    """A component that has been written, with the manifest's entries of its files, by name.

    `clipped` are the tensors of the checkpoint of which float16 cannot hold all values; `remarks` are on its
    activations, and on ports that another program, which binds the file, has other room for.
    """

    files: dict[str, ConvertedFile]
    ledger: ComponentLedger
    seconds: dict[str, float]
    clipped: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


ReadBack = Callable[[str], WrittenComponent]
"""Reads a written component back and describes it, given the fingerprint of what it was made from."""


def prepare(job: Job, name: str, changes: Changes, on_stage: OnStage) -> PreparedComponent:
    """Return a component's graph for each size, its weights described as they will be written."""
    jobs, stopwatch = job.variants(name), Stopwatch()
    models = changes.pruned.models.pop(name, ()) or [
        _traced(each, name, stopwatch, on_stage) for each in jobs
    ]
    sizes = [_prepare_size(job, name, model, changes, stopwatch, on_stage) for model in models]
    return sizes[0] if len(sizes) == 1 else _together(job, sizes, on_stage)


def _prepare_size(
    job: Job, name: str, model: Model, changes: Changes, stopwatch: Stopwatch, on_stage: OnStage
) -> PreparedComponent:
    settings = job.settings
    on_stage("rewriting", 0, 1)
    reached = changes.reached[name].result() if name in changes.reached else {}
    target = replace(settings.effective_target, largest=reached)
    ledger = apply(model.main, settings.active_rules, target)
    scaled = ledger.entries[RULE].fired if reached else 0
    remarks = tuple(too_large(name, reached, model.main, scaled))
    if settings.attention == "composite":
        before = ops_by_kind(model.main)
        ledger.enter("compose_attention", compose_attention(model), before, model.main)
    misfits = list[str]()
    beside = _bind(job, name, model, ledger, misfits)
    stopwatch.lap("rewriting")
    rounding = changes.roundings.get(name)
    rounder = partial(rounding.apply, on_layer=partial(on_stage, "rounding")) if rounding else nothing_rounded
    encoding = encode(model.main, settings.recipe, name, rounder)
    if rounding:
        stopwatch.lap("rounding")
    moving = job.family.latent_inputs if settings.split and name == job.family.denoiser.name else ()
    files = split_files(model, job.family.component(name), settings, ledger, moving)
    stopwatch.lap("rewriting")
    pruned = changes.pruned
    pruning = pruned.report.of(name) if pruned.report else None
    if pruning:
        stopwatch.seconds["pruning"] = pruned.seconds
    pruning = pruning or job.checkpoint.pruned.get(name)
    effects = ledger.of_component(pruning, encoding.weights)
    return PreparedComponent(files, effects, encoding, stopwatch, beside=beside, remarks=(*remarks, *misfits))


def _bind(
    job: Job, name: str, model: Model, ledger: Ledger, misfits: list[str]
) -> dict[str, Callable[[], bytes]]:
    """Give a network the interface of another program, if one is asked for; return the files beside it.

    Adds to `misfits` a clause for each port that the program has other room for.
    """
    interface, before = job.settings.interface, ops_by_kind(model.main)
    if interface is None or name not in interface.networks:
        return {}
    bound = bind(model.main, name, interface.networks[name])
    ledger.enter("bind_interface", 1, before, model.main)
    misfits.extend(bound.misfits)
    table, config = interface.time_embeddings, job.checkpoint.configs[name]
    if bound.layers is None or table is None:
        return {}
    compute = partial(time_embedding_table, bound.layers, table, config.cosine_first, config.frequency_shift)
    return {table.file: compute}


def _together(job: Job, sizes: Sequence[PreparedComponent], on_stage: OnStage) -> PreparedComponent:
    """Return one component of those prepared for each size of the job: its files hold all sizes."""
    on_stage("comparing", 0, 1)
    first, keys = sizes[0], [str(size) for size in image_sizes(job)]
    files, shared = dict[str, PreparedFile](), []
    for name, file in first.files.items():
        models = {key: size.files[name].model for key, size in zip(keys, sizes, strict=True)}
        model, facts = together(f"{name}.tflite", models)
        files[name] = PreparedFile(model, file.runs_on)
        shared.append(facts)
    first.stopwatch.lap("comparing")
    return replace(first, files=files, shared=tuple(shared))


def _traced(job: Job, name: str, stopwatch: Stopwatch, on_stage: OnStage) -> Model:
    on_stage("loading", 0, 1)
    job.structure(name, partial(on_stage, "tracing", 0, 1))
    stopwatch.lap("structure")
    return traced_model(job, name)


def split_files(
    model: Model, component: Component, settings: Settings, ledger: Ledger, moving: Collection[str]
) -> dict[str, PreparedFile]:
    """Return an encoded component's files: two where its delegate has no table lookup, which `ledger` notes.

    Two halves as well where the network is to be cut along the inputs `moving`. Raises BadConfig for one that
    cannot be, and for a file that its delegate, or the CPU, refuses or miscomputes.
    """
    name, lookup, recipe = component.name, component.lookup, settings.recipe
    files, before = {name: PreparedFile(model, "gpu")}, ops_by_kind(model.main)
    if recipe.splits_lookup and lookup and (split := split_lookup(model)):
        files = {lookup: PreparedFile(split[0], "cpu"), name: PreparedFile(split[1], "gpu")}
        ledger.enter("split_lookup", 1, before, split[1].main)
    if moving and component.first_half:
        first, second = _halves(model, component.title, settings.batch, moving)
        files = {component.first_half: PreparedFile(first, "gpu"), name: PreparedFile(second, "gpu")}
        ledger.enter("split_halves", 1, before, second.main)
    for file, prepared in files.items():
        on_cpu = prepared.runs_on == "cpu"
        require_supported(prepared.model, replace(recipe, delegate=None) if on_cpu else recipe, file)
    return files


def _halves(model: Model, title: str, batch: int, moving: Collection[str]) -> tuple[Model, Model]:
    halves = split_halves(model, batch, moving)
    if halves is None:
        raise BadConfig(f"--split finds no place where this {title} could be cut in two; leave --split out")
    return halves


def write(prepared: PreparedComponent, folder: Path, jobs: int | None, on_stage: OnStage) -> ReadBack:
    """Write a component's files into `folder`; return what reads them back and describes them.

    That waits until they are on the disk, which takes no core.
    """
    stopwatch = prepared.stopwatch
    stopwatch.restart()
    for name, file in prepared.files.items():
        path = folder / f"{name}.tflite"
        on_bytes = partial(on_stage, "writing")
        tflite.write(file.model, path, on_bytes=on_bytes, threads=jobs, lasting=False)
    for name, contents in prepared.beside.items():
        (folder / name).write_bytes(contents())
    stopwatch.lap("writing")
    runs_on = {name: file.runs_on for name, file in prepared.files.items()}
    written = WrittenComponent(
        files={},
        ledger=prepared.ledger,
        seconds=stopwatch.seconds,
        clipped=tuple(sorted(prepared.encoding.clipped)),
        remarks=prepared.remarks,
    )
    return partial(_read_back, folder, runs_on, written, stopwatch)


def _read_back(
    folder: Path,
    files: Mapping[str, RunsOn],
    written: WrittenComponent,
    stopwatch: Stopwatch,
    fingerprint: str,
) -> WrittenComponent:
    stopwatch.restart()
    for name in files:
        sync(folder / f"{name}.tflite")
    described = {
        name: describe_file(folder / f"{name}.tflite", fingerprint, runs_on)
        for name, runs_on in files.items()
    }
    stopwatch.lap("verifying")
    return replace(written, files=described)
