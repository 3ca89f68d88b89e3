"""A checkpoint to a bundle: trace, bind, rewrite, encode, write, one component after the other.

Nothing appears under its final name before everything is written and read back. Weights are only described
until a file is written; then one is in memory at a time.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path

import msd
from msd import tflite
from msd.bundle import (
    COMPONENTS,
    MANIFEST,
    Component,
    Configuration,
    Conversion,
    Interface,
    Manifest,
    Source,
    dump_manifest,
    file_facts,
)
from msd.errors import BadConfig, OutputExists
from msd.files import writing
from msd.ir import Graph, Model, Signature
from msd.memory import peak_rss
from msd.models.networks import Network, latent_size, networks
from msd.ports import Port, Ports
from msd.quantize import encode
from msd.rewrite import Ledger, Rewrite, Target, apply
from msd.sources.binding import bind
from msd.sources.checkpoint import Checkpoint
from msd.sources.formats import open_checkpoint
from msd.structure import Structure
from msd.trace import trace
from msd.weights import Weights

LIBRARIES = ("tensorflow", "keras", "ai-edge-litert", "flatbuffers", "numpy")
SIGNATURE = "serving_default"

OnProgress = Callable[[str, str, int, int], None]
"""Called with component, what is being done, how much is done, and of how much."""


@dataclass(frozen=True)
class Settings:
    """How to convert. `height` and `width` in pixels, None for the checkpoint's own."""

    rules: Sequence[Rewrite]
    weights: str = "int8"
    components: tuple[str, ...] = COMPONENTS
    batch: int = 1
    height: int | None = None
    width: int | None = None
    target: Target = field(default_factory=Target)
    force: bool = False


@dataclass(frozen=True)
class Plan:
    """What a conversion would write: learnt parameters and about how many bytes, by component."""

    parameters: dict[str, int]
    bytes: dict[str, int]
    height: int
    width: int


def plan(source: Path, settings: Settings) -> Plan:
    """Return what `convert` would write; reads headers only."""
    checkpoint = open_checkpoint(source)
    pixels = _pixels(checkpoint, settings)
    sizes = {c: sum(w.size for w in checkpoint.weights[c].values()) for c in settings.components}
    each = {"int8": 1, "float16": 2, "float32": 4}[settings.weights]
    return Plan(sizes, {c: n * each for c, n in sizes.items()}, *pixels)


def convert(source: Path, out: Path, settings: Settings, on_progress: OnProgress | None = None) -> Manifest:
    """Write the checkpoint at `source` to the bundle `out`; returns its manifest.

    Raises BadCheckpoint, BadConfig, OutputExists unless `settings.force`, or OutputUnwritable.
    """
    begun = time.perf_counter()
    _refuse_existing(out, settings)
    checkpoint = open_checkpoint(source)
    height, width = _pixels(checkpoint, settings)
    with _staged(out) as staging:
        parts, ledgers = {}, {}
        for name, network in _networks(checkpoint, settings).items():
            told = _teller(on_progress, name)
            model, ledger = _converted(name, network, checkpoint, settings, told)
            tflite.write(model, staging / f"{name}.tflite", on_bytes=partial(told, "writing"))
            parts[name] = _component(staging / f"{name}.tflite")
            ledgers[name] = ledger.to_json()
        _copy_extras(checkpoint, staging)
        manifest = Manifest(
            msd.__version__,
            _source(checkpoint),
            _configuration(checkpoint, settings, height, width),
            parts,
            Conversion(round(time.perf_counter() - begun, 2), peak_rss()),
            ledgers,
            dict(checkpoint.scheduler),
            {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
        )
        (staging / MANIFEST).write_text(dump_manifest(manifest), "utf-8")
        _publish(staging, out)
    return manifest


def _converted(
    name: str,
    network: Network,
    checkpoint: Checkpoint,
    settings: Settings,
    told: Callable[[str, int, int], None],
) -> tuple[Model, Ledger]:
    told("tracing", 0, 1)
    structure = trace(network.build, network.inputs)
    told("rewriting", 0, 1)
    weights = bind(name, structure.variables, checkpoint.weights[name]).weights
    model = with_weights(structure, weights)
    ledger = apply(model.main, settings.rules, settings.target)
    encode(model.main, settings.weights)
    return model, ledger


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


def _networks(checkpoint: Checkpoint, settings: Settings) -> dict[str, Network]:
    every = networks(
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


def _component(path: Path) -> Component:
    """Read a written file back and return what it is."""
    model = tflite.read(path)
    facts, ports = file_facts(path), Ports.of(model, path)
    return Component(
        path.name,
        facts.sha256,
        facts.bytes,
        len(model.main.ops),
        tuple(map(_interface, ports.inputs.values())),
        tuple(map(_interface, ports.outputs.values())),
    )


def _interface(port: Port) -> Interface:
    layout = {2: "NC", 3: "NTC", 4: "NHWC"}.get(len(port.shape), "N")
    return Interface(port.name, port.shape, port.dtype, "NT" if port.dtype == "int32" else layout)


def _source(checkpoint: Checkpoint) -> Source:
    files = {name: file_facts(path) for name, path in checkpoint.files.items()}
    return Source(checkpoint.kind, checkpoint.name, files)


def _configuration(checkpoint: Checkpoint, settings: Settings, height: int, width: int) -> Configuration:
    text_encoder, unet, vae_decoder = (asdict(getattr(checkpoint, c)) for c in COMPONENTS)
    return Configuration(text_encoder, unet, vae_decoder, height, width, settings.batch, settings.weights)


def _copy_extras(checkpoint: Checkpoint, staging: Path) -> None:
    (staging / "tokenizer").mkdir()
    for name, path in checkpoint.tokenizer.items():
        shutil.copyfile(path, staging / "tokenizer" / name)
    (staging / "scheduler").mkdir()
    text = json.dumps(dict(checkpoint.scheduler), indent=2) + "\n"
    (staging / "scheduler" / "scheduler_config.json").write_text(text, "utf-8")


def _refuse_existing(out: Path, settings: Settings) -> None:
    if unknown := set(settings.components) - set(COMPONENTS):
        raise BadConfig(f"there is no component {sorted(unknown)}; choose from {list(COMPONENTS)}")
    if out.exists() and not out.is_dir():
        raise OutputExists(f"{out} is a file; give a folder to write to")
    if not settings.force and out.is_dir() and any(out.iterdir()):
        raise OutputExists(f"{out} is not empty; give another folder, or --force to replace what is there")


@contextmanager
def _staged(out: Path) -> Iterator[Path]:
    """Yield a new folder beside `out`, removed afterwards whatever happens."""
    staging = out.absolute().with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with writing(out, staging):
            staging.mkdir(parents=True)
            yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _publish(staging: Path, out: Path) -> None:
    """Move everything into place, the manifest last, so that a bundle with a manifest is whole."""
    (out / MANIFEST).unlink(missing_ok=True)
    for folder in ("", "tokenizer", "scheduler"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    files = [p.relative_to(staging) for p in staging.rglob("*") if p.is_file()]
    for file in sorted(files, key=lambda p: (p.name == MANIFEST, p)):
        os.replace(staging / file, out / file)


def _teller(on_progress: OnProgress | None, component: str) -> Callable[[str, int, int], None]:
    def told(what: str, done: int, total: int) -> None:
        if on_progress:
            on_progress(component, what, done, total)

    return told
