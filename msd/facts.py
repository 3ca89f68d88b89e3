"""What a manifest says of files: those that were read and those that were written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msd import tflite
from msd.bundle import Adapter, Component, Interface, Source, file_facts
from msd.interpreter import require_loadable
from msd.ports import Port, Ports
from msd.sources.checkpoint import Checkpoint
from msd.sources.published import PUBLISHED


def component_of(path: Path, made_from: str) -> Component:
    """Read a written file back, here and with LiteRT, and return what it is."""
    require_loadable(path)
    model = tflite.read(path)
    facts, ports = file_facts(path), Ports.of(model, path)
    return Component(
        path.name,
        facts.sha256,
        facts.bytes,
        len(model.main.ops),
        tuple(map(_interface, ports.inputs.values())),
        tuple(map(_interface, ports.outputs.values())),
        made_from,
    )


def _interface(port: Port) -> Interface:
    layout = {2: "NC", 3: "NTC", 4: "NHWC"}.get(len(port.shape), "N")
    return Interface(port.name, port.shape, port.dtype, "NT" if port.dtype == "int32" else layout)


def source_of(checkpoint: Checkpoint, components: Sequence[str]) -> Source:
    """Return what the checkpoint is made of, but for files that only other components' weights are in."""
    held = {name for files in checkpoint.holders.values() for name in files}
    read = {name for component in components for name in checkpoint.holders[component]}
    files = {n: file_facts(path) for n, path in checkpoint.files.items() if n in read or n not in held}
    published = {name: PUBLISHED[f.sha256] for name, f in files.items() if f.sha256 in PUBLISHED}
    adapters = tuple(Adapter(name, scale) for name, scale in checkpoint.adapters.items())
    return Source(checkpoint.kind, checkpoint.name, files, adapters, published)
