"""What goes into a model and what comes out of it, under the names by which it is called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msd.errors import BadModelFile
from msd.ir import NUMPY, Graph, Model, Tensor

LOOKUPS = {"GATHER": (0, 1), "EMBEDDING_LOOKUP": (1, 0)}
"""Operations that look something up: which operand is the table, and which the places in it."""


@dataclass(frozen=True)
class Port:
    """An input or an output: its name in the signature (else the tensor's), its shape and NumPy dtype.

    `rows` is the length of the table that an integer input looks up, where there is one.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    rows: int | None = None


@dataclass(frozen=True)
class Ports:
    """All of a model's: those of its first signature, whose key is `signature`, else of its first graph."""

    signature: str | None
    inputs: dict[str, Port]
    outputs: dict[str, Port]

    @staticmethod
    def of(model: Model, path: Path) -> Ports:
        """Return the ports of a model, read from `path`; raises BadModelFile where one holds no numbers."""
        signed = next((graph for graph in model.graphs if graph.signatures), None)
        if signed is not None:
            first = signed.signatures[0]
            key, graph, inputs, outputs = first.key, signed, first.inputs, first.outputs
        else:
            key, graph = None, model.main
            inputs, outputs = ({t.name: t for t in side} for side in (graph.inputs, graph.outputs))
        return Ports(key, _ports(graph, inputs, path), _ports(graph, outputs, path))


def _ports(graph: Graph, tensors: dict[str, Tensor], path: Path) -> dict[str, Port]:
    return {name: _port(graph, name, tensor, path) for name, tensor in tensors.items()}


def _port(graph: Graph, name: str, tensor: Tensor, path: Path) -> Port:
    dtype = NUMPY.get(tensor.dtype)
    if dtype is None:
        raise BadModelFile(f"{path} has {name} of type {tensor.dtype}; only numbers can be given")
    return Port(name, tensor.shape, dtype, _rows(graph, tensor) if dtype.startswith("int") else None)


def _rows(graph: Graph, ids: Tensor) -> int | None:
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
