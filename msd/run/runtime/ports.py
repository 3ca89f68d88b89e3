"""A network's inputs and outputs: those that the manifest lists are the file's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msd.bundle import MANIFEST, Bundle, ConvertedFile
from msd.errors import BadBundle
from msd.tensor_spec import TensorSpec


def require_listed_ports(bundle: Bundle) -> None:
    """Read the files of a bundle, and raise what `require_ports` raises for them."""
    from msd.graph import tflite
    from msd.graph.ir.interface import Interface

    for name, file in bundle.manifest.components.items():
        path = bundle.path(name)
        ports = Interface.of(tflite.read(path), path)
        require_ports(path, file, ports.inputs, ports.outputs)


def require_ports(
    path: Path, listed: ConvertedFile, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]
) -> None:
    """Raise BadBundle where the manifest lists other names, shapes or types than the file at `path` has."""
    for side, given, real in ("input", listed.inputs, inputs), ("output", listed.outputs, outputs):
        said, is_so = _kinds(given), _kinds(real.values())
        for name in sorted({*said, *is_so}):
            if said.get(name) != is_so.get(name):
                raise BadBundle(
                    f"the {side} {name} of {path} is {is_so.get(name, 'not there')}, and {MANIFEST} says"
                    f" {said.get(name, 'nothing of it')}; convert the checkpoint again"
                )


def _kinds(specs: Iterable[TensorSpec]) -> dict[str, str]:
    return {spec.name: f"{spec.dtype}{list(spec.shape)}" for spec in specs}
