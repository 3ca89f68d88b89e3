"""The inputs and outputs of a model, under the names by which it is called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msd.errors import BadModelFile
from msd.ir import NUMPY, Graph, Model, Tensor

LOOKUPS = {"GATHER": (0, 1), "EMBEDDING_LOOKUP": (1, 0)}
"""Operators that look rows of a table up: which operand is the table, and which the row numbers."""

LAYOUTS = {2: "NC", 3: "NTC", 4: "NHWC"}
"""What the axes of a float tensor are, by its rank: batch, tokens, height, width, channels."""


@dataclass(frozen=True)
class TensorSpec:
    """One input or output: its name in the signature (else the tensor's), shape, NumPy dtype and layout.

    `layout` names the axes, "NHWC" for images and latents. `table_length` is the number of rows of the table
    that an integer input looks up, where there is one.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: str = ""
    table_length: int | None = None


@dataclass(frozen=True)
class Interface:
    """A model's inputs and outputs, of its first signature, whose key is `signature`, else of its graph."""

    signature: str | None
    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]

    @staticmethod
    def of(model: Model, path: Path) -> Interface:
        """Return a model's interface; raises BadModelFile, naming `path`, for a tensor without numbers."""
        signed = next((graph for graph in model.graphs if graph.signatures), None)
        if signed is not None:
            first = signed.signatures[0]
            key, graph, inputs, outputs = first.key, signed, first.inputs, first.outputs
        else:
            key, graph = None, model.main
            inputs, outputs = ({t.name: t for t in side} for side in (graph.inputs, graph.outputs))
        return Interface(key, _specs(graph, inputs, path), _specs(graph, outputs, path))


def _specs(graph: Graph, tensors: dict[str, Tensor], path: Path) -> dict[str, TensorSpec]:
    return {name: _spec(graph, name, tensor, path) for name, tensor in tensors.items()}


def _spec(graph: Graph, name: str, tensor: Tensor, path: Path) -> TensorSpec:
    dtype = NUMPY.get(tensor.dtype)
    if dtype is None:
        raise BadModelFile(f"{path} has {name} of type {tensor.dtype}; only numbers can be given")
    layout = "NT" if dtype == "int32" else LAYOUTS.get(len(tensor.shape), "N")
    table = _table_length(graph, tensor) if dtype.startswith("int") else None
    return TensorSpec(name, tensor.shape, dtype, layout, table)


def _table_length(graph: Graph, ids: Tensor) -> int | None:
    """Return the length of the shortest table that `ids`, or what is made of it, looks up."""
    seen, found = {ids}, list[int]()
    for op in graph.ops:
        if op.kind in LOOKUPS and len(op.operands) >= 2:
            table, asked = (op.operands[i] for i in LOOKUPS[op.kind])
            if asked in seen:
                found += table.shape[op.attrs.get("axis", 0) :][:1]
        elif seen.intersection(op.operands):
            seen.update(op.outputs)
    return min(found, default=None)
