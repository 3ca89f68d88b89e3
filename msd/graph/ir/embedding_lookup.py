"""A model split after its embedding lookups, for GPU delegates that cannot gather rows by runtime indices.

The first part maps integers to rows of floats; on the CPU it only copies these rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from msd.graph.ir import SIGNATURE, Build, Graph, Model, Op, Signature, Tensor
from msd.graph.ir.interface import LOOKUPS

INTEGERS = frozenset({"INT32", "INT64"})


@dataclass(frozen=True)
class _Lookup:
    """The float `rows` that the lookup returns, and the tensor `embedding`, which links the two parts."""

    rows: Tensor
    embedding: Tensor


def split_lookup(model: Model) -> tuple[Model, Model] | None:
    """Return (lookup, rest), which compute in sequence the same as `model`; None without a lookup.

    The split follows the first GATHER or EMBEDDING_LOOKUP with a float result for each integer input. There
    the lookup has an output, and the rest an input, that is float32, has the shape of the integer input plus
    one dimension, and is named after it: `tokens` (B, 77) becomes `token_embedding` (B, 77, C). The other
    inputs and outputs keep their names in the first signature. The parts reuse the tensors of `model`, which
    must not be used afterwards.
    """
    graph = model.main
    lookups = _lookups(graph)
    if not lookups:
        return None
    for each in lookups:
        _feed(graph, each)
    signature = _signature(graph)
    embeddings = {each.embedding.name: each.embedding for each in lookups}
    rest = _part(graph, graph.ops, {**embeddings, **signature.inputs}, signature)
    new = Build("rows")
    outputs = {each.embedding.name: _reshaped(new, each.rows, each.embedding.shape) for each in lookups}
    lookup = _part(graph, [*graph.ops, *new.ops], signature.inputs, replace(signature, outputs=outputs))
    return replace(model, graphs=[lookup]), replace(model, graphs=[rest, *model.graphs[1:]])


def _signature(graph: Graph) -> Signature:
    """Return the first signature, or one with the tensors' own names where there is none."""
    if graph.signatures:
        return graph.signatures[0]
    inputs, outputs = ({t.name: t for t in side} for side in (graph.inputs, graph.outputs))
    return Signature(SIGNATURE, inputs, outputs)


def _lookups(graph: Graph) -> list[_Lookup]:
    """Return every lookup whose indices are an integer input, or integers computed from one."""
    names = {tensor: name for name, tensor in _signature(graph).inputs.items()}
    source = {tensor: tensor for tensor in graph.inputs if tensor.dtype in INTEGERS}
    lookups: dict[str, _Lookup] = {}
    for op in graph.ops:
        ids = next((source[t] for t in op.operands if t in source), None)
        if ids is None:
            continue
        source |= dict.fromkeys((t for t in op.outputs if t.dtype in INTEGERS), ids)
        if op.kind in LOOKUPS and op.operands[LOOKUPS[op.kind][1]] in source:
            rows, name = op.outputs[0], f"{names[ids].removesuffix('s')}_embedding"
            name = f"{name}_{len(lookups)}" if name in lookups else name
            lookups[name] = _Lookup(rows, Tensor(name, (*ids.shape, rows.size // ids.size)))
    return [each for each in lookups.values() if each.rows.dtype == "FLOAT32"]


def _reshaped(new: Build, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return `tensor`, through a RESHAPE where it has another shape."""
    return tensor if tensor.shape == shape else new.RESHAPE(tensor, list(shape))


def _feed(graph: Graph, lookup: _Lookup) -> None:
    """Replace the rows by the embedding; a RESHAPE of the rows becomes one of the embedding, or none."""
    rows, embedding = lookup.rows, lookup.embedding
    for op in [op for op, _ in rows.uses if op.kind == "RESHAPE"]:
        op.inputs = (embedding, *op.inputs[1:])
        if op.outputs[0].shape == embedding.shape:
            graph.replace_tensor(op.outputs[0], embedding)
            graph.erase([op])
    if graph.is_used(rows):
        new = Build("rows")
        graph.replace_tensor(rows, _reshaped(new, embedding, rows.shape))
        graph.ops[:0] = new.ops


def _part(graph: Graph, ops: Sequence[Op], inputs: Mapping[str, Tensor], signature: Signature) -> Graph:
    """Return the `ops` that the outputs of `signature` need, with those of `inputs` that they read."""
    needed = {t.producer for t in signature.outputs.values()}
    for op in reversed(ops):
        if op in needed:
            needed.update(t.producer for t in op.operands)
    part_ops = [op for op in ops if op in needed]
    read = {*signature.outputs.values(), *(t for op in part_ops for t in op.operands)}
    used = {name: tensor for name, tensor in inputs.items() if tensor in read}
    part = Graph(used.values(), signature.outputs.values(), part_ops, graph.name)
    part.signatures = [Signature(signature.key, used, dict(signature.outputs))]
    return part
