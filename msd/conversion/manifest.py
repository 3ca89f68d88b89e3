"""The manifest of a bundle: the files that were read, the files that were written, and how."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msd.bundle import (
    Adapter,
    Configuration,
    ConvertedFile,
    Embedding,
    ImageSize,
    RecipeFacts,
    RunsOn,
    Source,
    file_facts,
)
from msd.conversion.job import Job
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.published import PUBLISHED
from msd.files.fingerprint import code_fingerprint, fingerprint
from msd.files.packages import installed_versions
from msd.files.schema import to_json
from msd.graph import tflite
from msd.graph.ir.interface import Interface
from msd.models.families.wiring import Wiring
from msd.run.runners.interpreter import require_loadable

LIBRARIES = ("tensorflow", "keras", "ai-edge-litert", "flatbuffers", "numpy")


def describe_file(path: Path, made_from: str, runs_on: RunsOn) -> ConvertedFile:
    """Read a written file back, with msd and with LiteRT, and return its entry in the manifest."""
    require_loadable(path)
    model = tflite.read(path)
    facts, interface = file_facts(path), Interface.of(model, path)
    signatures = [signature.key for graph in model.graphs for signature in graph.signatures]
    return ConvertedFile(
        file=path.name,
        sha256=facts.sha256,
        bytes=facts.bytes,
        operations=len(model.main.ops),
        inputs=tuple(interface.inputs.values()),
        outputs=tuple(interface.outputs.values()),
        made_from=made_from,
        runs_on=runs_on,
        signatures=tuple(signatures) if len(signatures) > 1 else (),
    )


@contextmanager
def hash_source(checkpoint: Checkpoint, components: Collection[str]) -> Iterator[Future[Source]]:
    """Yield the source of `components`, which another core hashes in about a second per GB."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(source_of, checkpoint, components)


def source_of(checkpoint: Checkpoint, components: Collection[str]) -> Source:
    """Return the source, without files that only have the weights of other components."""
    weights = {name for files in checkpoint.weight_files.values() for name in files}
    needed = {name for component in components for name in checkpoint.weight_files[component]}
    files = {n: file_facts(path) for n, path in checkpoint.files.items() if n in needed or n not in weights}
    published = {name: PUBLISHED[f.sha256] for name, f in files.items() if f.sha256 in PUBLISHED}
    adapters = tuple(Adapter(name, scale) for name, scale in checkpoint.adapters.items())
    embeddings = tuple(Embedding(name, tokens) for name, tokens in checkpoint.embeddings.items())
    replaced = {c: checkpoint.weight_files[c] for c in checkpoint.replaced if c in components}
    return Source(
        kind=checkpoint.kind,
        name=checkpoint.name,
        files=files,
        adapters=adapters,
        embeddings=embeddings,
        published=published,
        replaced=replaced,
    )


def configuration_of(job: Job) -> Configuration:
    """Return the settings of a conversion as the manifest records them."""
    height, width = job.size.pixels
    recipe, spelling = job.settings.recipe, job.settings.target.spelling
    interface = job.settings.interface
    return Configuration(
        height=height,
        width=width,
        batch=job.settings.batch,
        recipe=RecipeFacts(recipe.name, recipe.digest),
        networks=job.checkpoint.networks,
        prompt_chunks=job.settings.prompt_chunks,
        components={name: to_json(asdict(config)) for name, config in job.checkpoint.configs.items()},
        sizes=image_sizes(job) if len(job.sizes) > 1 else (),
        spelling=spelling.name if spelling.forms else "",
        vae_tile=job.settings.vae_tile,
        split=job.settings.split,
        attention=job.settings.attention if job.settings.attention == "composite" else "",
        interface=interface.name if interface else "",
        time_embeddings=interface.time_embeddings.file if interface and interface.time_embeddings else "",
        controls=Wiring(job.family.calls).controls,
        fused_controls=job.settings.fuse_control,
    )


def image_sizes(job: Job) -> tuple[ImageSize, ...]:
    """Return the sizes of the job's images, in order."""
    return tuple(ImageSize(width, height) for height, width in (size.pixels for size in job.sizes))


def fingerprints(job: Job, source: Source) -> dict[str, str]:
    """Return the fingerprint of everything that decides the files of each component of the job."""
    return {name: fingerprint(_facts(job, name, source)) for name in job.components}


def _facts(job: Job, name: str, source: Source) -> list[Any]:
    settings, network, adapters = job.settings, job.networks[name], job.checkpoint.adapters
    _, *others = job.variants(name)
    calibration = settings.calibration.facts() if settings.calibration else None
    is_pruned, is_rounded = name in job.pruned_components, name in job.rounded_components
    return [
        [(source.files[f].sha256, adapters.get(f)) for f in job.checkpoint.weight_files[name]],
        [network.description, network.inputs, *(each.networks[name].inputs for each in others)],
        [
            settings.recipe.digest,
            [settings.pruning_of(job.family), calibration] if is_pruned else None,
            calibration if is_rounded else None,
            settings.effective_target,
            [rule.name for rule in settings.active_rules],
            *([settings.interface.digest] if settings.interface else []),
            *(["composite"] if settings.attention == "composite" else []),
            *(["split"] if settings.split and name == job.family.denoiser.name else []),
        ],
        [code_fingerprint("msd", "graph_rewrites"), versions()],
    ]


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that decide a file's bytes."""
    return {"python": platform.python_version(), **installed_versions(*LIBRARIES)}


def in_order(files: Mapping[str, Any], order: Collection[str]) -> dict[str, Any]:
    """Return a mapping's items in the order in which a family lists them."""
    return {name: files[name] for name in order if name in files}
