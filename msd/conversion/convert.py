"""A checkpoint to a bundle: trace, bind, rewrite, encode, write, one component after the other.

Nothing appears under its final name before everything is written and read back. Weights are only described
until a file is written; then one is in memory at a time.
"""

from __future__ import annotations

import json
import platform
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msd
from msd import tflite
from msd.bundle import (
    COMPONENTS,
    FILES,
    LOOKUP,
    MANIFEST,
    Bundle,
    Component,
    Conversion,
    Manifest,
    Source,
    dump_manifest,
    open_bundle,
)
from msd.calibration.drawing import Calibration
from msd.conversion.files import parts_of
from msd.conversion.manifest import component_of, configuration_of, source_of
from msd.conversion.reuse import earlier, kept, refuse_foreign
from msd.conversion.stopwatch import Clock
from msd.encoding.encode import Encoding, encode, is_table, require_matched, stored_bits, stored_bytes
from msd.encoding.recipe import DEFAULT, Recipe, find_recipe
from msd.errors import BadConfig
from msd.files.fingerprint import code_fingerprint, fingerprint
from msd.files.staging import publish, staged
from msd.ir import Graph, Model, Signature
from msd.ir.weights import Weights
from msd.models import keras_cv
from msd.models.networks import Network, latent_size, networks
from msd.models.structure import Structure
from msd.models.structure_cache import is_cached, structure_of
from msd.pruning.observe import UnprunedNetworks, observe
from msd.pruning.prune import prune
from msd.pruning.report import PruningReport
from msd.pruning.settings import Pruning, parse_pruning
from msd.rewrite import Ledger, Rewrite, Target, apply
from msd.runners.peak_memory import peak_rss
from msd.sources.binding import bind
from msd.sources.checkpoint import Checkpoint
from msd.sources.formats import open_checkpoint
from msd.sources.lora import merge

LIBRARIES = ("tensorflow", "keras", "ai-edge-litert", "flatbuffers", "numpy")
SIGNATURE = "serving_default"
NETWORKS = {"msd": networks, "keras-cv": keras_cv.networks}

INTERFACE = ("feed_timestep_embedding",)
"""Rewrites that change what a network takes."""

OnProgress = Callable[[str, str, int, int], None]
"""Called with component, what is being done, how much is done, and of how much."""


@dataclass(frozen=True)
class Settings:
    """How to convert. `height` and `width` in pixels, None for the checkpoint's own; so `prediction_type`.

    `lora` are files to merge into the weights, each with its scale. `pruning` is what the recipe asks for
    where it is None, on a `calibration` if there is one.
    `networks`: "keras-cv" to build those of keras-cv, "auto" for our own.
    """

    rules: Sequence[Rewrite]
    recipe: Recipe = field(default_factory=lambda: find_recipe(DEFAULT))
    components: tuple[str, ...] = COMPONENTS
    batch: int = 1
    height: int | None = None
    width: int | None = None
    target: Target = field(default_factory=Target)
    prediction_type: str | None = None
    force: bool = False
    lora: Sequence[tuple[Path, float]] = ()
    networks: str = "auto"
    pruning: Pruning | None = None
    calibration: Calibration | None = None

    @property
    def applied(self) -> list[Rewrite]:
        """Those of `rules` that the recipe leaves on."""
        return [rule for rule in self.rules if rule.name not in self.recipe.without]

    def pruned(self, component: str) -> Pruning | None:
        """What to prune of a component, together with others, if anything."""
        chosen = self.pruning
        if chosen is None and self.recipe.prune is not None:
            chosen = parse_pruning(self.recipe.prune)
        return chosen if chosen and component in chosen.components else None

    def pruning_facts(self, component: str) -> list[object] | None:
        """What decides how a component is pruned, None where it is not."""
        wanted = self.pruned(component)
        return [wanted, self.calibration.facts() if self.calibration else None] if wanted else None

    @property
    def aim(self) -> Target:
        """`target`; for a recipe of TensorFlow Lite's delegate the device as that one uses it.

        Other files suit both delegates as far as they can, so they keep to the limits of both.
        """
        device = self.target.device
        if not self.recipe.is_classic or device.delegate:
            return self.target
        return replace(self.target, device=device.under("tflite-gpu"))


@dataclass(frozen=True)
class Plan:
    """What a conversion would write: learnt parameters and about how many bytes, by file."""

    parameters: dict[str, int]
    bytes: dict[str, int]
    height: int
    width: int


def plan(source: Path, settings: Settings) -> Plan:
    """Return what `convert` would write; reads headers only."""
    checkpoint = _open(source, settings)
    pixels = _pixels(checkpoint, settings)
    sizes, bits = Counter[str](), Counter[str]()
    for component in settings.components:
        for name, weights in checkpoint.weights[component].items():
            file = LOOKUP if settings.recipe.is_classic and is_table(name) else component
            sizes[file] += weights.size
            bits[file] += stored_bits(settings.recipe, component, name, weights)
    return Plan(dict(sizes), {file: n // 8 for file, n in bits.items()}, *pixels)


def convert(source: Path, out: Path, settings: Settings, on_progress: OnProgress | None = None) -> Manifest:
    """Write the checkpoint at `source` to the bundle `out`; returns its manifest.

    Components that `out` has already, made of the same weights in the same way, stay as they are. Raises
    BadCheckpoint, BadConfig, OutputUnwritable, or OutputExists where something else would be overwritten
    and not `settings.force`.
    """
    begun = time.perf_counter()
    _require_known(settings)
    if settings.calibration:
        settings.calibration.facts()
    refuse_foreign(out, settings.force)
    stay, old = {}, earlier(out, settings.force)
    work = _Work(_open(source, settings), settings, COMPONENTS if old else settings.components, source)
    if old:
        stay = kept(out, old, work.source, work.configuration, work.fingerprints, settings.force)
    todo = [name for name in settings.components if name not in stay]
    if old and not todo and old.scheduler == work.checkpoint.scheduler:
        return old
    with staged(out) as staging:
        ready = {name: work.prepare(name, _teller(on_progress, name)) for name in todo}
        require_matched(settings.recipe, {name: each.encoding for name, each in ready.items()})
        made = {name: work.write(name, staging, ready.pop(name), on_progress) for name in todo}
        _copy_extras(work.checkpoint, staging)
        manifest = work.manifest(old, stay, made, time.perf_counter() - begun)
        (staging / MANIFEST).write_text(dump_manifest(manifest), "utf-8")
        publish(staging, out, MANIFEST)
    for name in set(old.components if old else ()) - set(manifest.components):
        (out / f"{name}.tflite").unlink(missing_ok=True)
    return manifest


@dataclass(frozen=True)
class _Ready:
    """A component to be written, its models by file: all that can be refused has been looked at."""

    models: dict[str, Model]
    ledger: Ledger
    encoding: Encoding
    clock: Clock
    pruned: dict[str, Any] | None


@dataclass(frozen=True)
class _Made:
    """A component that has been written, what it is by file."""

    parts: dict[str, Component]
    ledger: dict[str, Any]
    seconds: dict[str, float]


class _Work:
    """One checkpoint to be converted in one way."""

    def __init__(
        self, checkpoint: Checkpoint, settings: Settings, components: Sequence[str], path: Path = Path()
    ) -> None:
        self.checkpoint, self.settings, self.source_path = checkpoint, settings, path
        self._scratch = TemporaryDirectory(prefix="msd-convert-")
        self.configuration = configuration_of(
            checkpoint, settings.recipe, settings.batch, _pixels(checkpoint, settings)
        )
        self.networks = _networks(checkpoint, settings)
        # Beside the work itself: hashing takes about a second for each GB, on another core.
        self._hashing = ThreadPoolExecutor(1).submit(source_of, checkpoint, components)

    @property
    def source(self) -> Source:
        """The checkpoint's files, hashed."""
        return self._hashing.result()

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of all that decides each component's file."""
        return {name: fingerprint(self._facts(name)) for name in self.settings.components}

    def _facts(self, name: str) -> list[Any]:
        settings, network, adapters = self.settings, self.networks[name], self.checkpoint.adapters
        return [
            [(self.source.files[f].sha256, adapters.get(f)) for f in self.checkpoint.holders[name]],
            [network.description, network.inputs],
            [
                settings.recipe.digest,
                settings.pruning_facts(name),
                settings.aim,
                [rule.name for rule in settings.applied],
            ],
            [code_fingerprint("msd", "graph_rewrites"), _versions()],
        ]

    def prepare(self, name: str, told: Callable[[str, int, int], None]) -> _Ready:
        """Return a component's graph, its weights described as they will be written."""
        network, settings, clock = self.networks[name], self.settings, Clock()
        told("loading" if is_cached(network) else "tracing", 0, 1)
        structure = structure_of(network)
        clock.lap("structure")
        if settings.pruned(name):
            told("pruning", 0, 1)
            model, pruned = self.pruned[0].pop(name), self.pruned[1]
            clock.lap("pruning")
        else:
            model, pruned = self.traced(name, structure), None
        told("rewriting", 0, 1)
        ledger = apply(model.main, settings.applied, settings.aim)
        encoding = encode(model.main, settings.recipe, name)
        models = parts_of(name, model, settings.recipe, ledger)
        clock.lap("rewriting")
        return _Ready(models, ledger, encoding, clock, pruned.of(name) if pruned else None)

    def traced(self, name: str, structure: Structure | None = None) -> Model:
        """Return a component as it is traced, with its weights."""
        structure = structure or structure_of(self.networks[name])
        return with_weights(structure, bind(name, structure.variables, self.checkpoint.weights[name]).weights)

    @cached_property
    def pruned(self) -> tuple[dict[str, Model], PruningReport]:
        """All components that lose something, without what they lost: a budget is for all together."""
        settings = self.settings
        wanted = next(p for p in map(settings.pruned, settings.components) if p)
        models = {name: self.traced(name) for name in settings.components if settings.pruned(name)}
        graphs = {name: model.main for name, model in models.items()}
        observed = None
        if settings.calibration:
            networks = UnprunedNetworks(self.fed, self.plain, settings.applied, settings.aim)
            observed = observe(settings.calibration, graphs, networks, Path(self._scratch.name))
        return models, prune(graphs, wanted, partial(stored_bytes, settings.recipe), observed)

    def fed(self, name: str) -> Model:
        """Return a component as it is traced, but with the inputs that its file takes."""
        model = self.traced(name)
        apply(model.main, [rule for rule in self.settings.applied if rule.name in INTERFACE])
        return model

    def plain(self, folder: Path) -> Bundle:
        """Return the checkpoint converted with nothing pruned, in `folder`."""
        settings = replace(self.settings, recipe=find_recipe(DEFAULT), pruning=None, calibration=None)
        convert(self.source_path, folder, replace(settings, components=COMPONENTS))
        return open_bundle(folder)

    def write(self, name: str, staging: Path, ready: _Ready, on_progress: OnProgress | None) -> _Made:
        """Write a component's files into `staging`, read them back, and return what they are."""
        paths, clock = {file: staging / f"{file}.tflite" for file in ready.models}, ready.clock
        clock.restart()
        for file, path in paths.items():
            tflite.write(ready.models[file], path, on_bytes=partial(_teller(on_progress, name), "writing"))
        clock.lap("writing")
        made_from = self.fingerprints[name]
        parts = {f: component_of(p, made_from, "cpu" if f == LOOKUP else "gpu") for f, p in paths.items()}
        clock.lap("verifying")
        ledger = ready.ledger.to_json() | ({"pruning": ready.pruned} if ready.pruned else {})
        return _Made(parts, ledger, clock.seconds)

    def manifest(
        self, old: Manifest | None, stay: Mapping[str, Component], made: Mapping[str, _Made], seconds: float
    ) -> Manifest:
        """Return the manifest of what stays and what was made."""
        ledger = {name: old.ledger.get(name, {}) for name in COMPONENTS if name in stay} if old else {}
        ledger |= {name: each.ledger for name, each in made.items()}
        parts = dict(stay)
        for each in made.values():
            parts |= each.parts
        return Manifest(
            msd.__version__,
            self.source,
            self.configuration,
            {name: parts[name] for name in FILES if name in parts},
            Conversion(round(seconds, 2), peak_rss(), {name: each.seconds for name, each in made.items()}),
            {name: ledger[name] for name in COMPONENTS if name in ledger},
            dict(self.checkpoint.scheduler),
            _versions(),
        )


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def with_weights(structure: Structure, weights: dict[str, Weights]) -> Model:
    """Return the model of a traced structure whose variables are the constants `weights`, by tensor name.

    It has one signature, under the names of the structure's inputs and outputs.
    """
    model = tflite.parse(structure.flatbuffer)
    graph = model.main
    by_name = {t.name: t for t in graph.inputs}
    for key, data in weights.items():
        by_name[key].data = data
        by_name[key].name = structure.variables[key].path
    graph.inputs = [by_name[name] for name in structure.inputs]
    outputs = dict(zip(structure.outputs, graph.outputs, strict=True))
    graph.signatures = [Signature(SIGNATURE, dict(zip(structure.inputs, graph.inputs, strict=True)), outputs)]
    _shorten_names(graph)
    return model


def _shorten_names(graph: Graph) -> None:
    """The converter joins the names of everything that it fused; the first says enough."""
    for tensor in graph.tensors():
        tensor.name = tensor.name.partition(";")[0]


def _open(source: Path, settings: Settings) -> Checkpoint:
    checkpoint = open_checkpoint(source, settings.prediction_type, settings.networks)
    return merge(checkpoint, settings.lora)


def _networks(checkpoint: Checkpoint, settings: Settings) -> dict[str, Network]:
    every = NETWORKS[checkpoint.networks](
        checkpoint.text_encoder,
        checkpoint.unet,
        checkpoint.vae_decoder,
        settings.height,
        settings.width,
        settings.batch,
    )
    return {name: every[name] for name in settings.components}


def _pixels(checkpoint: Checkpoint, settings: Settings) -> tuple[int, int]:
    size = latent_size(checkpoint.unet, checkpoint.vae_decoder, settings.height, settings.width)
    return size[0] * checkpoint.vae_decoder.scale, size[1] * checkpoint.vae_decoder.scale


def _copy_extras(checkpoint: Checkpoint, staging: Path) -> None:
    (staging / "tokenizer").mkdir()
    for name, read in checkpoint.tokenizer.items():
        (staging / "tokenizer" / name).write_bytes(read())
    (staging / "scheduler").mkdir()
    text = json.dumps(dict(checkpoint.scheduler), indent=2) + "\n"
    (staging / "scheduler" / "scheduler_config.json").write_text(text, "utf-8")


def _require_known(settings: Settings) -> None:
    if unknown := set(settings.components) - set(COMPONENTS):
        raise BadConfig(f"there is no component {sorted(unknown)}; choose from {list(COMPONENTS)}")


def _teller(on_progress: OnProgress | None, component: str) -> Callable[[str, int, int], None]:
    def told(what: str, done: int, total: int) -> None:
        if on_progress:
            on_progress(component, what, done, total)

    return told
