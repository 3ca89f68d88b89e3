"""A network cut into its named blocks, and the same blocks of a compressed version of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from msd.graph.ir import Graph, Op, Tensor
from msd.graph.ir.downstream import downstream
from msd.measure.blockwise.labels import Labels, Pair, is_learned, joined, label

MOVES = frozenset({"RESHAPE", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V"})
"""Operators that only move data."""

BITS = {"INT2": 2, "INT4": 4, "INT8": 8, "UINT8": 8, "INT16": 16, "FLOAT16": 16, "INT64": 64, "FLOAT64": 64}
"""The bits of an element by type; all other types have 32."""

Key = tuple[str, tuple[int, ...], str]


@dataclass(frozen=True)
class Block:
    """The same part of two graphs, delimited by the tensors that enter and leave it.

    `reference` and `compressed` are graphs of some operators of the two networks, whose tensors they share.
    Their outputs are the same, by name and shape. `values` maps the inputs of both to the reference's
    tensors. Operators that several blocks need, such as projections that were merged, are in each of them.
    """

    name: str
    reference: Graph
    compressed: Graph
    values: dict[Tensor, Tensor]


def blocks(reference: Graph, compressed: Graph, together: Collection[Pair] = ()) -> list[Block]:
    """Return the blocks of two versions of a network, in order of execution.

    The boundaries are tensors that both graphs have, by name, shape and dtype: where one graph lacks a
    tensor, the operators that produce it become part of the block that reads it. Blocks `together` are one.
    Raises ValueError for graphs whose inputs or outputs differ.
    """
    for what in ("inputs", "outputs"):
        ours, other = (_types_and_shapes(getattr(graph, what)) for graph in (reference, compressed))
        if ours != other:
            raise ValueError(f"the {what} of one are {ours} and of the other {other}")
    labels = joined(label(reference), together)
    theirs = _by_key(compressed)
    shared = {t: theirs[key] for key, t in _by_key(reference).items() if key in theirs}
    for what in ("inputs", "outputs"):
        shared |= dict(zip(getattr(reference, what), getattr(compressed, what), strict=True))
    outputs: dict[str, list[Tensor]] = {}
    for tensor in _crossing(reference, labels):
        if tensor in shared:
            outputs.setdefault(labels[tensor.maker], []).append(tensor)
    ends = {t: shared[t] for t in (*reference.inputs, *(t for tensors in outputs.values() for t in tensors))}
    return [_block(name, tensors, reference, compressed, ends) for name, tensors in outputs.items()]


def straddled(reference: Graph, compressed: Graph) -> set[Pair]:
    """Return the pairs of blocks whose common tensor is missing from the compressed network.

    That happens where pruning narrowed a width that both have: such a pair can only be stored in one format.
    """
    labels, theirs = label(reference), _by_key(compressed)
    known = set(_by_key(reference).values())
    lost = [t for t in _crossing(reference, labels) if t in known and _key(t) not in theirs]
    readers = [(labels[t.maker], labels[user]) for t in lost for user, _ in t.uses if user in labels]
    return {(maker, reader) for maker, reader in readers if maker != reader}


def _block(
    name: str, tensors: list[Tensor], reference: Graph, compressed: Graph, ends: dict[Tensor, Tensor]
) -> Block:
    ours = _part(reference, tensors, set(ends).difference(tensors))
    back = {theirs: t for t, theirs in ends.items()}
    outputs = [ends[t] for t in tensors]
    theirs = _part(compressed, outputs, set(back).difference(outputs))
    values = {t: back[t] for t in theirs.inputs} | {t: t for t in ours.inputs}
    return Block(name, ours, theirs, values)


def _types_and_shapes(tensors: Iterable[Tensor]) -> list[str]:
    return [f"{t.dtype.lower()}{list(t.shape)}" for t in tensors]


def _key(tensor: Tensor) -> Key:
    return tensor.name, tensor.shape, tensor.dtype


def _by_key(graph: Graph) -> dict[Key, Tensor]:
    """Return the inputs and results of a graph that no other has the name, shape and dtype of."""
    every = [*graph.inputs, *(t for op in graph.ops for t in op.outputs)]
    counts = Counter(map(_key, every))
    return {_key(t): t for t in every if counts[_key(t)] == 1}


def _crossing(graph: Graph, labels: Labels) -> list[Tensor]:
    """Return the results that another block reads, or that the graph returns.

    Parts of merged projections are not among them: each belongs to the block that reads it.
    """
    return [
        t
        for op in graph.ops
        if op in labels
        for t in op.outputs
        if t in graph.outputs
        or (any(labels.get(user) != labels[op] for user, _ in t.uses) and not _is_cut_off(t))
    ]


def _is_cut_off(tensor: Tensor) -> bool:
    """Whether the tensor is one part of a SPLIT, or that part after data movement."""
    op = tensor.producer
    while op is not None and op.kind in MOVES:
        if op.kind in ("SPLIT", "SPLIT_V"):
            return True
        op = op.operands[0].producer
    return False


def _part(graph: Graph, outputs: list[Tensor], ends: set[Tensor]) -> Graph:
    """Return the graph that computes `outputs` from `ends`, which may be any results, and constants."""
    needed, waiting = set[Op](), [t.maker for t in outputs]
    while waiting:
        op = waiting.pop()
        if op not in needed:
            needed.add(op)
            waiting += [t.producer for t in op.operands if t.producer is not None and t not in ends]
    ops = [op for op in graph.ops if op in needed]
    taken = dict.fromkeys(t for op in ops for t in op.operands if t.data is None and t.producer not in needed)
    return Graph(taken, outputs, ops, graph.name)


def weight_bytes(every: Sequence[Graph]) -> list[int]:
    """Return the bytes of each block's learned weights, divided evenly where several blocks share them."""
    users = Counter(t for graph in every for t in graph.tensors() if is_learned(t))
    return [sum(stored(t) // users[t] for t in graph.tensors() if t in users) for graph in every]


def stored(tensor: Tensor) -> int:
    """Return the bytes that a constant takes in a file."""
    return -(-tensor.size * BITS.get(tensor.dtype, 32) // 8)


def swapped(reference: Graph, block: Block, known: Iterable[Tensor]) -> Graph:
    """Return the network in which `block` is the compressed one, and all others are the reference's.

    It is a copy, and begins where the block does: its inputs are named as those of the tensors `known` of the
    reference are that it takes.
    """
    instead = dict(zip(block.reference.outputs, block.compressed.outputs, strict=True))
    inside = set(block.compressed.ops)

    def read(op: Op) -> list[Tensor | None]:
        """Return the inputs of a copy of `op`, of either graph."""
        into = block.values if op in inside else instead
        return [t if t is None else into.get(t, t) for t in op.inputs]

    ends = set(known) - downstream(reference, instead)
    returned = [instead.get(t, t) for t in reference.outputs]
    ops = list(_ordered(returned, read, ends))
    taken = dict.fromkeys(t for op in ops for t in read(op) if t in ends)
    copies = {t: _like(t) for t in taken if t is not None}
    inputs = list(copies.values())
    copied = [_copy(op, read(op), copies) for op in ops]
    return Graph(inputs, [copies[t] for t in returned], copied, reference.name)


def _ordered(
    outputs: list[Tensor], read: Callable[[Op], list[Tensor | None]], ends: set[Tensor]
) -> Iterable[Op]:
    """Return the operators that compute `outputs` from `ends`, in topological order."""
    order, seen = TopologicalSorter[Op](), set[Op]()
    waiting = [t.producer for t in outputs]
    while waiting:
        op = waiting.pop()
        if op is not None and op not in seen:
            seen.add(op)
            makers = [t.producer for t in read(op) if t and t not in ends and t.producer is not None]
            order.add(op, *makers)
            waiting += makers
    return order.static_order()


def _copy(op: Op, inputs: list[Tensor | None], copies: dict[Tensor, Tensor]) -> Op:
    for tensor in (*inputs, *op.outputs):
        if tensor is not None and tensor not in copies:
            copies[tensor] = _like(tensor)
    copy = Op(
        kind=op.kind,
        inputs=[t and copies[t] for t in inputs],
        outputs=[copies[t] for t in op.outputs],
        attrs=dict(op.attrs),
        version=op.version,
    )
    copy.has_options, copy.rest = op.has_options, op.rest
    return copy


def _like(tensor: Tensor) -> Tensor:
    copy = Tensor(
        name=tensor.name, shape=tensor.shape, dtype=tensor.dtype, data=tensor.data, quant=tensor.quant
    )
    copy.is_variable, copy.shape_signature = tensor.is_variable, tensor.shape_signature
    copy.rest = tensor.rest
    return copy
