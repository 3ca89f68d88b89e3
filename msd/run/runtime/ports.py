"""A network's inputs and outputs: those that the manifest lists are the file's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msd.bundle import Bundle, ConvertedFile
from msd.run.runtime.listed_sizes import refuse_other, require_listed_sizes
from msd.tensor_spec import TensorSpec


def require_listed_ports(bundle: Bundle) -> None:
    """Read the files of a bundle; raise BadBundle for what its manifest says otherwise, ports and sizes."""
    from msd.graph import tflite
    from msd.graph.ir.interface import Interface

    for name, file in bundle.manifest.components.items():
        path = bundle.path(name)
        model = tflite.read(path)
        ports = Interface.of(model, path)
        require_ports(path, file, ports.inputs, ports.outputs)
        count, listed = str(len(model.main.ops)), str(file.operations)
        refuse_other(f"the number of operations of {path}", count, listed)
    require_listed_sizes(bundle)


def require_ports(
    path: Path, listed: ConvertedFile, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]
) -> None:
    """Raise BadBundle where the manifest lists other inputs or outputs than the file at `path` has.

    It may say nothing of a layout and of a table's length.
    """
    for side, given, real in ("input", listed.inputs, inputs), ("output", listed.outputs, outputs):
        said = {spec.name: spec for spec in given}
        for name in sorted({*said, *real}):
            _require_same(f"the {side} {name} of {path}", said.get(name), real.get(name))


def _require_same(port: str, listed: TensorSpec | None, real: TensorSpec | None) -> None:
    refuse_other(port, _kind(real) if real else "not there", _kind(listed) if listed else "nothing of it")
    if listed and real and listed.layout:
        refuse_other(f"the layout of {port}", real.layout, listed.layout)
    if listed and real and listed.table_length is not None:
        refuse_other(f"the table_length of {port}", str(real.table_length), str(listed.table_length))


def _kind(spec: TensorSpec) -> str:
    return f"{spec.dtype}{list(spec.shape)}"
