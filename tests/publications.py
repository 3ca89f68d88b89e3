"""Everything that publishes files, each with what is there before, without TensorFlow."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import graph_rewrites
from msd.bundle import MANIFEST, Conversion, ConvertedFile, Source, file_facts, open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion import convert as conversion
from msd.conversion import manifest as conversion_manifest
from msd.conversion.component import WrittenComponent
from msd.conversion.job import Job, open_job
from msd.conversion.manifest import fingerprints, source_of
from msd.conversion.settings import Settings
from msd.export.app.manifest import describe
from msd.export.files.export import export_files
from msd.export.folder import NOTE
from msd.files.atomic import atomic_write
from msd.files.publication import recover
from msd.graph.ledger import ComponentLedger
from msd.measure.regress import goldens
from msd.measure.regress.goldens import Origin
from msd.measure.regress.regression import Regression
from msd.measure.regress.report_folder import write_report
from msd.measure.regress.suite import SuitePicture
from msd.models import structure_cache
from msd.models.demo import CHECKPOINT
from msd.models.networks import Network
from msd.models.structure import Structure, VariableSpec
from msd.run.runtime.image import GeneratedImage, save_image
from msd.tensor_spec import TensorSpec
from tests.app_bundles import write_bundle
from tests.kills import MINE, Case
from tests.regressions import SUITE, judged, waves

SETTINGS = Settings(graph_rewrites.load())
FLOAT = replace(SETTINGS, recipe=find_recipe("float32"))
VERSIONS = {"python": "3"}
FORCED = replace(SETTINGS, force=True)
EARLIER = replace(FLOAT, also=("vae_encoder",))
UNET = replace(SETTINGS, components=("unet",))
ORIGIN = Origin("a" * 64, "same", "s", "r", "0", "cpu", "fp32", {})
STRUCTURE = Structure(b"TFL3" * 9, ("a", "b"), ("c",), {"variable_0": VariableSpec("layer/kernel", (3, 4))})
WIDTH = 128
"""The demo's channels of a prompt's context."""

NETWORK = Network(lambda: None, {"x": ((1, 4), "float32")}, "one")


def written(
    job: Job, names: Sequence[str], folder: Path, source_files: Future[Source], *_: object
) -> Mapping[str, WrittenComponent]:
    """Write components that are their own names, in place of networks; of each recipe others."""
    made_from = fingerprints(job, source_files.result())
    return {name: _component(job, name, folder, made_from[name]) for name in names}


def _component(job: Job, name: str, folder: Path, made_from: str) -> WrittenComponent:
    path = folder / f"{name}.tflite"
    with atomic_write(path) as temporary:
        temporary.write_bytes(f"{name} {job.settings.recipe.name} ".encode() * 100)
    facts = file_facts(path)
    inputs = job.networks[name].inputs.items()
    takes = tuple(TensorSpec(title, shape, dtype) for title, (shape, dtype) in inputs)
    gives = {output.tensor for call in job.family.calls if call.component == name for output in call.outputs}
    returns = tuple(TensorSpec(title, (1, WIDTH), "float32") for title in sorted(gives))
    file = ConvertedFile(path.name, facts.sha256, facts.bytes, 1, takes, returns, made_from)
    return WrittenComponent({name: file}, ComponentLedger(1, 1, ()), {})


JOBS: dict[int, tuple[Settings, Job]] = {}
"""Settings by their identity, and the job of each."""


def opened(source: Path, settings: Settings) -> Job:
    """Return the job of `source`, which is read once for all conversions with the same settings."""
    if id(settings) not in JOBS:
        JOBS[id(settings)] = settings, open_job(source, settings)
    return JOBS[id(settings)][1]


@cache
def _source(components: frozenset[str]) -> Future[Source]:
    """Return the demo checkpoint as the source of `components`, hashed once."""
    future = Future[Source]()
    future.set_result(source_of(open_job(CHECKPOINT, SETTINGS).checkpoint, components))
    return future


@contextmanager
def hashed(checkpoint: object, components: Collection[str]) -> Iterator[Future[Source]]:
    """Yield the source of `components` without another thread."""
    yield _source(frozenset(components))


def convert(folder: Path, settings: Settings) -> None:
    """Convert the demo checkpoint, with `written` in place of tracing, at no cost."""
    with (
        patch.object(conversion, "open_job", opened),
        patch.object(conversion, "hash_source", hashed),
        patch.object(conversion, "versions", VERSIONS.copy),
        patch.object(conversion_manifest, "versions", VERSIONS.copy),
        patch.object(conversion, "write_components", written),
        patch.object(conversion, "Conversion", lambda **_: Conversion(0.0, 0)),
    ):
        conversion.convert(CHECKPOINT, folder / "out", settings)


def earlier_bundle(folder: Path) -> None:
    """A bundle of another recipe with a component more, and files of the user's."""
    convert(folder, EARLIER)
    _add_mine(folder / "out", "tokenizer")


def a_network_short(folder: Path) -> None:
    """A bundle that lacks the text encoder and the decoder."""
    convert(folder, UNET)
    _add_mine(folder / "out", "scheduler")


def _add_mine(out: Path, inside: str) -> None:
    (out / MINE).write_text("mine")
    (out / inside / MINE).write_text("mine")


def read_bundle(folder: Path) -> None:
    """Open the bundle where there is one; what is not whole is refused here."""
    recoverable = folder / "out" / ".msd-part" / "journal.json"
    if (folder / "out" / MANIFEST).exists() or recoverable.exists():
        open_bundle(folder / "out", verify=True)


def export(folder: Path, force: bool = False, steps: tuple[int, ...] = (2,)) -> None:
    bundle = open_bundle(folder / "bundle")
    export_files(bundle, folder / "out", describe(bundle, steps), force)


def earlier_export(folder: Path) -> None:
    """An export with a file that the next one lacks, alone in its folder, and one of the user's."""
    write_bundle(folder / "bundle")
    export(folder, steps=(6,))
    (folder / "out" / "old").mkdir()
    (folder / "out" / "old" / "stale.txt").write_text("stale")
    note = json.loads((folder / "out" / NOTE).read_text())
    (folder / "out" / NOTE).write_text(json.dumps({**note, "files": [*note["files"], "old/stale.txt"]}))
    _add_mine(folder / "out", "SDModels")


def golden_images(folder: Path, names: Sequence[str], shift: int = 0) -> None:
    drawing = replace(SUITE.drawing, pictures=tuple(SuitePicture(name, name) for name in names))
    images = {name: _image(shift + n) for n, name in enumerate(names)}
    goldens.require_replaceable(folder / "out")
    goldens.write(folder / "out", replace(SUITE, drawing=drawing), images, ORIGIN)


def read_goldens(folder: Path) -> None:
    recover(folder / "out")
    if (folder / "out").exists():
        goldens.read_pictures(folder / "out", goldens.load(folder / "out"))


def _image(seed: int) -> GeneratedImage:
    return GeneratedImage(waves(seed), np.zeros((1, 4, 6, 4), np.float32), {"seed": seed})


def report(folder: Path, seed: int = 0) -> None:
    images = {name: waves(seed + n) for n, name in enumerate(("fox", "owl"))}
    new = {name: _image(seed + n) for n, name in enumerate(("fox", "owl"))}
    recover(folder / "out")
    write_report(Regression(judged(images), images, new), folder / "out")


def earlier_report(folder: Path) -> None:
    report(folder, 5)
    _add_mine(folder / "out", "pictures")


def cache_structure(folder: Path) -> None:
    """Trace a network, of which the trace costs nothing, and keep its structure."""
    with (
        patch.dict(os.environ, MSD_CACHE=str(folder / "out")),
        patch.object(structure_cache, "trace", lambda *_: STRUCTURE),
    ):
        assert structure_cache.structure_of(NETWORK) == STRUCTURE


def damaged_cache(folder: Path) -> None:
    cache_structure(folder)
    (path,) = (folder / "out").rglob("*.zip")
    path.write_bytes(path.read_bytes()[:50])


def nothing(_: Path) -> None: ...


def recovered(folder: Path) -> None:
    recover(folder / "out")


def image(folder: Path, force: bool) -> None:
    save_image(_image(1), folder / "out.png", force)


def image_without_links(folder: Path) -> None:
    with patch.object(os, "link", side_effect=OSError(errno.EPERM, "Operation not permitted")):
        image(folder, False)


def _stamped(work: Any) -> Any:
    """Let zip files have one date, so that equal structures are equal bytes."""

    def stamped(folder: Path) -> None:
        with patch("time.localtime", lambda *_: (2026, 1, 1, 0, 0, 0, 0, 1, 0)):
            work(folder)

    return stamped


CASES = (
    Case("bundle, new folder", nothing, lambda f: convert(f, SETTINGS), read_bundle),
    Case("bundle, empty folder", lambda f: (f / "out").mkdir(), lambda f: convert(f, SETTINGS), read_bundle),
    Case("bundle, more components", a_network_short, lambda f: convert(f, SETTINGS), read_bundle),
    Case("bundle, `--force` over another", earlier_bundle, lambda f: convert(f, FORCED), read_bundle),
    Case("bundle, new folder, `--force`", nothing, lambda f: convert(f, FORCED), read_bundle),
    Case("export, new folder", lambda f: write_bundle(f / "bundle"), export, recovered),
    Case("export, `--force` over another", earlier_export, lambda f: export(f, True), recovered),
    Case("goldens, new folder", nothing, lambda f: golden_images(f, ("fox", "owl")), read_goldens),
    Case(
        "goldens, `--update` of others",
        lambda f: golden_images(f, ("fox", "yak"), 5),
        lambda f: golden_images(f, ("fox", "owl")),
        read_goldens,
    ),
    Case("report of regress, new folder", nothing, report, recovered),
    Case("report of regress, `--force` over another", earlier_report, report, recovered),
    Case("structure cache, new", nothing, _stamped(cache_structure), nothing),
    Case("structure cache, damaged", _stamped(damaged_cache), _stamped(cache_structure), nothing),
    Case("one image, new", nothing, lambda f: image(f, False), nothing, "out.png"),
    Case("one image, new, on a disk without hard links", nothing, image_without_links, nothing, "out.png"),
    Case(
        "one image, `--force` over another",
        lambda f: (f / "out.png").write_text("old"),
        lambda f: image(f, True),
        nothing,
        "out.png",
    ),
)
