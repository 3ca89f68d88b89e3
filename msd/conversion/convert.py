"""Converts a checkpoint to a bundle: open, prune, trace, rewrite, encode, write, component by component.

Nothing appears under its final name before everything is written and read back. Weights are only described
until a file is written; then few are in memory at a time: threads read and quantise them ahead of the writer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msd
from msd.bundle import (
    MANIFEST,
    Bundle,
    Conversion,
    ConvertedFile,
    Manifest,
    Source,
    dump_manifest,
    open_bundle,
)
from msd.compress.encoding.encode import require_matched
from msd.conversion.activations import measured
from msd.conversion.calibrate import calibrate, roundings
from msd.conversion.collector import collect_on_request
from msd.conversion.component import (
    Changes,
    OnStage,
    PreparedComponent,
    ReadBack,
    WrittenComponent,
    prepare,
    write,
)
from msd.conversion.job import Job, open_job
from msd.conversion.manifest import configuration_of, fingerprints, hash_source, in_order, versions
from msd.conversion.plan import Plan, plan, stored_bytes
from msd.conversion.prune import PrunedModels, prune_components, require_prunable
from msd.conversion.reuse import (
    refuse_source,
    remarked,
    removed_networks,
    require_unchanged,
    reusable_files,
    stale_files,
    stamp,
    unowned,
)
from msd.conversion.settings import Settings
from msd.conversion.sizes.share import SharedFile
from msd.conversion.source import require_output
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.trace import unread_tensors
from msd.conversion.turns import short_turns
from msd.errors import BadBundle
from msd.files.disk import require_space
from msd.files.publication import publish, staged
from msd.files.stated import require_stated
from msd.files.targets import require_targets
from msd.models.families.wiring import wire
from msd.run.runners.peak_memory import peak_rss

__all__ = ["OnProgress", "OnRemoved", "OnShared", "Plan", "Settings", "convert", "plan"]

SCHEDULER = "scheduler/scheduler_config.json"

OnProgress = Callable[[str, str, int, int], None]
"""Called with a component, its stage, how much of it is done, and the total."""

OnShared = Callable[[SharedFile], None]
"""Called with each file that will hold several sizes, before any is written."""

OnRemoved = Callable[[Sequence[str]], object]
"""Called with the networks' files of the conversion before that are gone, once they are."""


def convert(
    source: Path,
    out: Path,
    settings: Settings,
    on_progress: OnProgress | None = None,
    on_shared: OnShared | None = None,
    on_removed: OnRemoved | None = None,
) -> Manifest:
    """Write the checkpoint at `source` to the bundle `out`; returns its manifest.

    Components that `out` already has, from the same weights with the same settings, stay as they are. Raises
    BadCheckpoint, BadConfig, OutputUnwritable, or OutputExists where something else would be overwritten
    and not `settings.force`.
    """
    started = time.perf_counter()
    refuse_source(source, out)
    previous, before = require_output(out, settings), stamp(out)
    job = open_job(source, settings)
    require_targets(out, file_names(job))
    said = (*job.remarks, *unowned(out, previous, file_names(job)))
    to_hash = job.checkpoint.weights if previous or settings.calibration else job.components
    with hash_source(job.checkpoint, to_hash) as source_files:
        reused = reusable_files(job, out, previous, source_files.result()) if previous else {}
        remaining = [name for name in job.components if name not in reused]
        current = (job.checkpoint.scheduler, job.images)
        if previous and not remaining and (previous.scheduler, previous.images) == current:
            with suppress(BadBundle):
                require_stated(out / SCHEDULER, previous.scheduler)
                return remarked(previous, previous, settings, said)
        with staged(out) as staging:
            require_unchanged(out, before)
            require_space(out, sum(stored_bytes(job, remaining).values()))
            written = write_changed(job, remaining, staging, source_files, on_progress, on_shared)
            manifest = manifest_of(job, source_files.result(), written, reused, previous, started)
            manifest = remarked(previous, manifest, settings, said)
            finish_bundle(job.checkpoint, manifest, staging)
            publish(staging, out, MANIFEST, stale_files(previous, manifest))
    if on_removed:
        on_removed(removed_networks(previous, manifest))
    return manifest


def write_changed(
    job: Job,
    names: Sequence[str],
    folder: Path,
    source_files: Future[Source],
    on_progress: OnProgress | None,
    on_shared: OnShared | None,
) -> dict[str, WrittenComponent]:
    """Write components to `folder`, pruned and rounded by what the checkpoint is observed to compute."""
    with (
        TemporaryDirectory(prefix="pruned-", dir=folder.parent) as scratch,
        ThreadPoolExecutor(1) as measuring,
    ):
        pruned = PrunedModels()
        if job.settings.calibration:
            if {*names} & {*job.pruned_components}:
                require_prunable(job)
            _report("calibrating", job.rounded_components or job.pruned_components, on_progress)
        observed = calibrate(job, names, Path(scratch), partial(write_unpruned, job, source_files))
        if set(names) & set(job.pruned_components):
            _report("pruning", job.pruned_components, on_progress)
            pruned = prune_components(job, observed)
        changes = Changes(pruned, roundings(job, observed), measured(job, names, measuring))
        return write_components(job, names, folder, source_files, changes, on_progress, on_shared)


def file_names(job: Job) -> list[str]:
    """Return the names of all files that a conversion may write into the folder of its bundle."""
    components = [job.family.component(name) for name in job.components]
    files = [file for each in components for file in each.files]
    tokenizer = [f"{name}/{file}" for name, files in job.checkpoint.tokenizers.items() for file in files]
    interface = job.settings.interface
    table = [interface.time_embeddings.file] if interface and interface.time_embeddings else []
    return [*(f"{file}.tflite" for file in files), *table, *tokenizer, SCHEDULER, MANIFEST]


def write_components(
    job: Job,
    names: Sequence[str],
    folder: Path,
    source_files: Future[Source],
    changes: Changes,
    on_progress: OnProgress | None = None,
    on_shared: OnShared | None = None,
) -> dict[str, WrittenComponent]:
    """Write components to `folder`, the first only when all are prepared; returns their descriptions.

    Files are read back and hashed while the next is written, so that the largest is written first, and the
    source while all are.
    """
    with collect_on_request() as collect:
        stages = {name: _on_stage(on_progress, name) for name in names}
        with short_turns():
            prepared = {name: prepare(job, name, changes, stages[name]) for name in names}
        encodings = {name: each.encoding for name, each in prepared.items()}
        require_matched(job.settings.recipe, encodings, job.family.required)
        for file in (file for each in prepared.values() for file in each.shared):
            if on_shared:
                on_shared(file)
        collect()
        return _write_prepared(job, prepared, folder, source_files, stages, collect)


def _write_prepared(
    job: Job,
    prepared: dict[str, PreparedComponent],
    folder: Path,
    source_files: Future[Source],
    stages: Mapping[str, OnStage],
    collect: Callable[[], object],
) -> dict[str, WrittenComponent]:
    """Write what is prepared, which `prepared` then lacks, and `collect` what is left of each."""
    with ThreadPoolExecutor(1) as reader:
        made_from = reader.submit(lambda: fingerprints(job, source_files.result()))

        def described(name: str, read_back: ReadBack) -> WrittenComponent:
            return read_back(made_from.result()[name])

        names, written = list(prepared), dict[str, Future[WrittenComponent]]()
        for name in sorted(names, key=lambda name: -prepared[name].weights):
            read_back = write(prepared.pop(name), folder, job.settings.jobs, stages[name])
            collect()
            written[name] = reader.submit(described, name, read_back)
        return {name: written[name].result() for name in names}


def write_unpruned(job: Job, source_files: Future[Source], folder: Path) -> Bundle:
    """Write the job's checkpoint with nothing pruned to `folder`, to generate images with."""
    started, unpruned = time.perf_counter(), job.unpruned
    folder.mkdir()
    written = write_components(unpruned, unpruned.components, folder, source_files, Changes())
    manifest = manifest_of(unpruned, source_files.result(), written, {}, None, started)
    finish_bundle(job.checkpoint, manifest, folder)
    return open_bundle(folder)


def manifest_of(
    job: Job,
    source: Source,
    written: Mapping[str, WrittenComponent],
    reused: Mapping[str, ConvertedFile],
    previous: Manifest | None,
    started: float,
) -> Manifest:
    """Return the manifest of the files that are reused and those that were written, without its remarks."""
    ledger = {name: previous.ledger[name] for name in reused if name in previous.ledger} if previous else {}
    ledger |= {
        name: replace(each.ledger, remarks=(*unread_tensors(job, [name]), *_of_written(name, each)))
        for name, each in written.items()
    }
    files = {**reused, **{name: file for each in written.values() for name, file in each.files.items()}}
    seconds = {name: each.seconds for name, each in written.items()}
    configuration, components = configuration_of(job), in_order(files, job.family.files)
    return Manifest(
        msd=msd.__version__,
        versions=versions(),
        family=job.family.name,
        source=source,
        configuration=configuration,
        components=components,
        calls=() if job.settings.interface else wire(job.family, components, configuration.components),
        ledger=in_order(ledger, job.family.names),
        scheduler=dict(job.checkpoint.scheduler),
        images=job.images,
        conversion=Conversion(
            stages=seconds,
            left_out=job.left_out,
            peak_rss_bytes=peak_rss(),
            seconds=round(time.perf_counter() - started, 2),
        ),
    )


def _of_written(name: str, each: WrittenComponent) -> Iterator[str]:
    """Yield what float16 cannot hold of a component, and where nothing was pruned."""
    pruning = each.ledger.pruning
    if pruning and not pruning.units:
        because = f"it fits the budget of {pruning.budget} whole" if pruning.budget else "all units are kept"
        yield f"nothing of {name} was pruned: {because}"
    yield from each.remarks
    if each.clipped:
        yield (
            f"{name} has weights beyond float16's largest number, 65504, which they are stored as:"
            f" {', '.join(each.clipped)}; --recipe float32 keeps them"
        )


def finish_bundle(checkpoint: Checkpoint, manifest: Manifest, folder: Path) -> None:
    """Write the other files of a bundle: tokenizers, scheduler, and last the manifest."""
    for name, files in checkpoint.tokenizers.items():
        (folder / name).mkdir()
        for file, read in files.items():
            (folder / name / file).write_bytes(read())
    (folder / SCHEDULER).parent.mkdir()
    text = json.dumps(dict(checkpoint.scheduler), indent=2) + "\n"
    (folder / SCHEDULER).write_text(text, "utf-8")
    (folder / MANIFEST).write_text(dump_manifest(manifest), "utf-8")


def _report(stage: str, names: Sequence[str], on_progress: OnProgress | None) -> None:
    for name in names:
        _on_stage(on_progress, name)(stage, 0, 1)


def _on_stage(on_progress: OnProgress | None, component: str) -> OnStage:
    def report(stage: str, done: int, total: int) -> None:
        if on_progress:
            on_progress(component, stage, done, total)

    return report
