"""A model cut behind its lookups: for GPU delegates that cannot look rows up by numbers they are given.

What is cut off takes the integers and gives rows of floats: on the CPU that is a copy of as many rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from msd.ir import Build, Graph, Model, Op, Signature, Tensor
from msd.ir.interface import LOOKUPS

INTEGERS = frozenset({"INT32", "INT64"})


@dataclass(frozen=True)
class _Lookup:
    """The float `rows` that are looked up, and the `port` between the two parts, which has another shape."""

    rows: Tensor
    port: Tensor


def split_lookup(model: Model) -> tuple[Model, Model] | None:
    """Return (lookup, rest), which one after the other compute what `model` does; None without a lookup.

    Cut are the first float results of GATHER and EMBEDDING_LOOKUP at places that come from an integer input.
    The port there is float32 of the input's shape and one dimension more, and its name is made of the
    input's: `tokens` (B, 77) gives `token_embedding` (B, 77, C). Other ports keep their names in the first
    signature. The parts are made of `model`, which is no longer one, and share what both need.
    """
    graph = model.main
    lookups = _lookups(graph)
    if not lookups:
        return None
    for each in lookups:
        _feed(graph, each)
    named = _signature(graph)
    ports = {each.port.name: each.port for each in lookups}
    rest = _part(graph, graph.ops, {**ports, **named.inputs}, named)
    new = Build("rows")
    given = {each.port.name: _shaped(new, each.rows, each.port.shape) for each in lookups}
    lookup = _part(graph, [*graph.ops, *new.ops], named.inputs, replace(named, outputs=given))
    return replace(model, graphs=[lookup]), replace(model, graphs=[rest, *model.graphs[1:]])


def _signature(graph: Graph) -> Signature:
    """Return the first signature, or what stands for it: the tensors' names."""
    if graph.signatures:
        return graph.signatures[0]
    inputs, outputs = ({t.name: t for t in side} for side in (graph.inputs, graph.outputs))
    return Signature("serving_default", inputs, outputs)


def _lookups(graph: Graph) -> list[_Lookup]:
    """Return every lookup by an integer input, or by integers that were made of one."""
    names = {tensor: name for name, tensor in _signature(graph).inputs.items()}
    source = {tensor: tensor for tensor in graph.inputs if tensor.dtype in INTEGERS}
    found: dict[str, _Lookup] = {}
    for op in graph.ops:
        asked = next((source[t] for t in op.operands if t in source), None)
        if asked is None:
            continue
        source |= dict.fromkeys((t for t in op.outputs if t.dtype in INTEGERS), asked)
        if op.kind in LOOKUPS and op.operands[LOOKUPS[op.kind][1]] in source:
            rows, name = op.outputs[0], f"{names[asked].removesuffix('s')}_embedding"
            name = f"{name}_{len(found)}" if name in found else name
            found[name] = _Lookup(rows, Tensor(name, (*asked.shape, rows.size // asked.size)))
    return [each for each in found.values() if each.rows.dtype == "FLOAT32"]


def _shaped(new: Build, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """tensor  =>  RESHAPE(tensor), where it has another shape"""
    return tensor if tensor.shape == shape else new.RESHAPE(tensor, list(shape))


def _feed(graph: Graph, lookup: _Lookup) -> None:
    """What reads the rows reads the port; a RESHAPE of them becomes one of the port, or none."""
    rows, port = lookup.rows, lookup.port
    for op in [op for op, _ in rows.uses if op.kind == "RESHAPE"]:
        op.inputs = (port, *op.inputs[1:])
        if op.outputs[0].shape == port.shape:
            graph.replace_tensor(op.outputs[0], port)
            graph.erase([op])
    if graph.is_used(rows):
        new = Build("rows")
        graph.replace_tensor(rows, _shaped(new, port, rows.shape))
        graph.ops[:0] = new.ops


def _part(graph: Graph, ops: Sequence[Op], inputs: Mapping[str, Tensor], named: Signature) -> Graph:
    """Return what makes the outputs `named`, of `ops`, with those of `inputs` that it takes."""
    needed = {t.producer for t in named.outputs.values()}
    for op in reversed(ops):
        if op in needed:
            needed.update(t.producer for t in op.operands)
    kept = [op for op in ops if op in needed]
    taken = {*named.outputs.values(), *(t for op in kept for t in op.operands)}
    used = {name: tensor for name, tensor in inputs.items() if tensor in taken}
    part = Graph(used.values(), named.outputs.values(), kept, graph.name)
    part.signatures = [Signature(named.key, used, dict(named.outputs))]
    return part
