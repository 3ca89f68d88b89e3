"""The inputs and outputs of a model, under the names that callers use."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from msd.errors import BadModelFile
from msd.graph.ir import NUMPY, Graph, Model, Tensor
from msd.tensor_spec import TensorSpec

LOOKUPS = {"GATHER": (0, 1), "EMBEDDING_LOOKUP": (1, 0)}
"""Operators that look up rows of a table: the positions of the table and of the row indices."""

IDS = ("INT32", "INT64")
"""The types of token ids."""

LAYOUTS = {2: "NC", 3: "NTC", 4: "NHWC"}
"""The axes of a float tensor by its rank: batch (N), tokens (T), height, width, channels."""


@dataclass(frozen=True)
class Interface:
    """The inputs and outputs of a model's first signature, else of its main graph.

    `signature` is the key of that signature, None where the model has none.
    """

    signature: str | None
    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]

    @staticmethod
    def of(model: Model, path: Path) -> Interface:
        """Return a model's interface; raises BadModelFile, naming `path`, for a non-numeric tensor."""
        graph, key, inputs, outputs = _first(model)
        return Interface(key, _specs(graph, inputs, path), _specs(graph, outputs, path))


def compared_ids(model: Model) -> dict[str, int]:
    """Return, by input, the id that the model compares its ids with: a text encoder's end of the prompt.

    Without it a pooled state, that of the end, is zeros whatever the weights are.
    """
    graph, _, inputs, _ = _first(model)
    names = {tensor: name for name, tensor in inputs.items()}
    found: dict[str, int] = {}
    for op in graph.ops:
        if op.kind == "EQUAL":
            for ids, other in permutations(op.operands):
                if ids in names and ids.dtype in IDS and other.data is not None and other.size == 1:
                    found[names[ids]] = int(other.values().item())
    return found


def _first(model: Model) -> tuple[Graph, str | None, dict[str, Tensor], dict[str, Tensor]]:
    """Return the graph of the first signature with its key and ports, else the main graph with its own."""
    for graph in model.graphs:
        if graph.signatures:
            first = graph.signatures[0]
            return graph, first.key, first.inputs, first.outputs
    inputs, outputs = ({t.name: t for t in side} for side in (model.main.inputs, model.main.outputs))
    return model.main, None, inputs, outputs


def _specs(graph: Graph, tensors: dict[str, Tensor], path: Path) -> dict[str, TensorSpec]:
    return {name: _spec(graph, name, tensor, path) for name, tensor in tensors.items()}


def _spec(graph: Graph, name: str, tensor: Tensor, path: Path) -> TensorSpec:
    dtype = NUMPY.get(tensor.dtype)
    if dtype is None:
        raise BadModelFile(f"{path} has {name} of type {tensor.dtype}; only numeric tensors are supported")
    layout = "NT" if dtype == "int32" else LAYOUTS.get(len(tensor.shape), "N")
    table = _table_length(graph, tensor) if dtype.startswith("int") else None
    return TensorSpec(name=name, shape=tensor.shape, dtype=dtype, layout=layout, table_length=table)


def _table_length(graph: Graph, ids: Tensor) -> int | None:
    """Return the length of the shortest table that `ids`, or a tensor computed from it, indexes."""
    dependent, lengths = {ids}, list[int]()
    for op in graph.ops:
        if op.kind in LOOKUPS and len(op.operands) >= 2:
            table, indices = (op.operands[i] for i in LOOKUPS[op.kind])
            if indices in dependent:
                lengths += table.shape[op.attrs.get("axis", 0) :][:1]
        elif dependent.intersection(op.operands):
            dependent.update(op.outputs)
    return min(lengths, default=None)
