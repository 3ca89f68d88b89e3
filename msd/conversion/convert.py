"""A checkpoint to a bundle: open, prune, trace, rewrite, encode, write, one component after the other.

Nothing appears under its final name before everything is written and read back. Weights are only described
until a file is written; then one is in memory at a time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
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
from msd.conversion.component import OnStage, WrittenComponent, prepare, write
from msd.conversion.job import Job, open_job
from msd.conversion.manifest import configuration_of, fingerprints, hashing, in_order, versions
from msd.conversion.plan import Plan, plan
from msd.conversion.prune import PrunedModels, prune_components
from msd.conversion.reuse import earlier, kept, refuse_foreign
from msd.conversion.settings import Settings
from msd.encoding.encode import require_matched
from msd.files.staging import publish, staged
from msd.runners.peak_memory import peak_rss
from msd.sources.checkpoint import Checkpoint

__all__ = ["OnProgress", "Plan", "Settings", "convert", "plan"]

OnProgress = Callable[[str, str, int, int], None]
"""Called with component, what is being done, how much is done, and of how much."""


def convert(source: Path, out: Path, settings: Settings, on_progress: OnProgress | None = None) -> Manifest:
    """Write the checkpoint at `source` to the bundle `out`; returns its manifest.

    Components that `out` has already, made of the same weights in the same way, stay as they are. Raises
    BadCheckpoint, BadConfig, OutputUnwritable, or OutputExists where something else would be overwritten
    and not `settings.force`.
    """
    started = time.perf_counter()
    if settings.calibration:
        settings.calibration.facts()
    refuse_foreign(out, settings.force)
    old = earlier(out, settings.force)
    job = open_job(source, settings)
    hashed = job.checkpoint.weights if old or settings.calibration else job.components
    with hashing(job.checkpoint, hashed) as source_files:
        stay = kept(job, out, old, source_files.result()) if old else {}
        todo = [name for name in job.components if name not in stay]
        if old and not todo and old.scheduler == job.checkpoint.scheduler:
            return old
        with staged(out) as staging, TemporaryDirectory(prefix="msd-convert-") as scratch:
            pruned = PrunedModels()
            if set(todo) & set(settings.pruned(job.family)):
                _report_pruning(job, on_progress)
                pruned = prune_components(job, Path(scratch), partial(write_unpruned, job, source_files))
            written = write_components(job, todo, staging, source_files, pruned, on_progress)
            manifest = manifest_of(job, source_files.result(), written, stay, old, started)
            finish_bundle(job.checkpoint, manifest, staging)
            publish(staging, out, MANIFEST)
    for name in set(old.components if old else ()) - set(manifest.components):
        (out / f"{name}.tflite").unlink(missing_ok=True)
    return manifest


def write_components(
    job: Job,
    names: Sequence[str],
    folder: Path,
    source_files: Future[Source],
    pruned: PrunedModels,
    on_progress: OnProgress | None = None,
) -> dict[str, WrittenComponent]:
    """Write components to `folder`, the first only when all are prepared; returns what they are."""
    stages = {name: _on_stage(on_progress, name) for name in names}
    prepared = {name: prepare(job, name, pruned, stages[name]) for name in names}
    encodings = {name: each.encoding for name, each in prepared.items()}
    require_matched(job.settings.recipe, encodings, job.family.required)
    made_from = fingerprints(job, source_files.result())
    return {name: write(prepared.pop(name), folder, made_from[name], stages[name]) for name in names}


def write_unpruned(job: Job, source_files: Future[Source], folder: Path) -> Bundle:
    """Write the job's checkpoint with nothing pruned to `folder`, to generate images with."""
    started, unpruned = time.perf_counter(), job.unpruned
    folder.mkdir()
    written = write_components(unpruned, unpruned.components, folder, source_files, PrunedModels())
    manifest = manifest_of(unpruned, source_files.result(), written, {}, None, started)
    finish_bundle(job.checkpoint, manifest, folder)
    return open_bundle(folder)


def manifest_of(
    job: Job,
    source: Source,
    written: Mapping[str, WrittenComponent],
    stay: Mapping[str, ConvertedFile],
    old: Manifest | None,
    started: float,
) -> Manifest:
    """Return the manifest of the files that stay and those that were written."""
    ledger = {name: old.ledger[name] for name in stay if name in old.ledger} if old else {}
    ledger |= {name: each.ledger for name, each in written.items()}
    files = {**stay, **{name: file for each in written.values() for name, file in each.files.items()}}
    seconds = {name: each.seconds for name, each in written.items()}
    return Manifest(
        msd=msd.__version__,
        source=source,
        configuration=configuration_of(job),
        components=in_order(files, job.family.files),
        conversion=Conversion(round(time.perf_counter() - started, 2), peak_rss(), seconds),
        ledger=in_order(ledger, job.family.names),
        scheduler=dict(job.checkpoint.scheduler),
        versions=versions(),
        family=job.family.name,
    )


def finish_bundle(checkpoint: Checkpoint, manifest: Manifest, folder: Path) -> None:
    """Write what a bundle has beside its networks: tokenizer, scheduler, and last the manifest."""
    (folder / "tokenizer").mkdir()
    for name, read in checkpoint.tokenizer.items():
        (folder / "tokenizer" / name).write_bytes(read())
    (folder / "scheduler").mkdir()
    text = json.dumps(dict(checkpoint.scheduler), indent=2) + "\n"
    (folder / "scheduler" / "scheduler_config.json").write_text(text, "utf-8")
    (folder / MANIFEST).write_text(dump_manifest(manifest), "utf-8")


def _report_pruning(job: Job, on_progress: OnProgress | None) -> None:
    for name in job.settings.pruned(job.family):
        _on_stage(on_progress, name)("pruning", 0, 1)


def _on_stage(on_progress: OnProgress | None, component: str) -> OnStage:
    def report(stage: str, done: int, total: int) -> None:
        if on_progress:
            on_progress(component, stage, done, total)

    return report
