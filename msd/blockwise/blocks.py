"""A network cut into its named blocks, and the same blocks of a compressed version of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from msd.blockwise.labels import Labels, Pair, is_learnt, joined, label
from msd.ir import Graph, Op, Tensor
from msd.ir.downstream import downstream

MOVES = frozenset({"RESHAPE", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V"})
"""Operators that only move numbers."""

BITS = {"INT2": 2, "INT4": 4, "INT8": 8, "UINT8": 8, "INT16": 16, "FLOAT16": 16, "INT64": 64, "FLOAT64": 64}
"""Of an element of a type; of all others 32."""

Key = tuple[str, tuple[int, ...], str]


@dataclass(frozen=True)
class Block:
    """The same part of two graphs, by the tensors that go in and out of it.

    `reference` and `compressed` are graphs of operators of the whole ones, whose tensors they share. Their
    outputs are the same, by name and shape. `values` are the reference's tensors for all that either takes.
    Operators that several blocks need, such as projections that were merged, are in each of them.
    """

    name: str
    reference: Graph
    compressed: Graph
    values: dict[Tensor, Tensor]


def blocks(reference: Graph, compressed: Graph, together: Collection[Pair] = ()) -> list[Block]:
    """Return the blocks of two versions of a network, in order of execution.

    What goes from block to block are tensors that both have, by name, shape and dtype: where one lacks them,
    what makes them becomes part of the block that reads them. Blocks `together` are one. Raises ValueError
    for graphs whose inputs or outputs differ.
    """
    for what in ("inputs", "outputs"):
        ours, other = (_said(getattr(graph, what)) for graph in (reference, compressed))
        if ours != other:
            raise ValueError(f"the {what} of one are {ours} and of the other {other}")
    labels = joined(label(reference), together)
    theirs = _by_key(compressed)
    shared = {t: theirs[key] for key, t in _by_key(reference).items() if key in theirs}
    for what in ("inputs", "outputs"):
        shared |= dict(zip(getattr(reference, what), getattr(compressed, what), strict=True))
    found: dict[str, list[Tensor]] = {}
    for tensor in _crossing(reference, labels):
        if tensor in shared:
            found.setdefault(labels[tensor.maker], []).append(tensor)
    ends = {t: shared[t] for t in (*reference.inputs, *(t for made in found.values() for t in made))}
    return [_block(name, made, reference, compressed, ends) for name, made in found.items()]


def torn(reference: Graph, compressed: Graph) -> set[Pair]:
    """Return the pairs of blocks between which the compressed network has not what goes between them.

    That is so where a width was pruned that both have: they can only be stored alike.
    """
    labels, theirs = label(reference), _by_key(compressed)
    known = set(_by_key(reference).values())
    lost = [t for t in _crossing(reference, labels) if t in known and _key(t) not in theirs]
    readers = [(labels[t.maker], labels[user]) for t in lost for user, _ in t.uses if user in labels]
    return {(maker, reader) for maker, reader in readers if maker != reader}


def _block(
    name: str, made: list[Tensor], reference: Graph, compressed: Graph, ends: dict[Tensor, Tensor]
) -> Block:
    ours = _part(reference, made, set(ends).difference(made))
    back = {theirs: t for t, theirs in ends.items()}
    outputs = [ends[t] for t in made]
    theirs = _part(compressed, outputs, set(back).difference(outputs))
    values = {t: back[t] for t in theirs.inputs} | {t: t for t in ours.inputs}
    return Block(name, ours, theirs, values)


def _said(tensors: Iterable[Tensor]) -> list[str]:
    return [f"{t.dtype.lower()}{list(t.shape)}" for t in tensors]


def _key(tensor: Tensor) -> Key:
    return tensor.name, tensor.shape, tensor.dtype


def _by_key(graph: Graph) -> dict[Key, Tensor]:
    """Return the inputs and results of a graph that no other has the name, shape and dtype of."""
    every = [*graph.inputs, *(t for op in graph.ops for t in op.outputs)]
    counts = Counter(map(_key, every))
    return {_key(t): t for t in every if counts[_key(t)] == 1}


def _crossing(graph: Graph, labels: Labels) -> list[Tensor]:
    """Return the results that another block reads than makes them, or that the graph returns.

    Parts of projections that were merged are not among them: each is to be in the block that reads it.
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
    """Whether it is one of the parts that a SPLIT made, moved about at most."""
    op = tensor.producer
    while op is not None and op.kind in MOVES:
        if op.kind in ("SPLIT", "SPLIT_V"):
            return True
        op = op.operands[0].producer
    return False


def _part(graph: Graph, outputs: list[Tensor], ends: set[Tensor]) -> Graph:
    """Return what makes `outputs` of `ends`, which may be results of any operators, and of constants."""
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
    """Return how many bytes each block's learnt weights take; those in several are shared out evenly."""
    holders = Counter(t for graph in every for t in graph.tensors() if is_learnt(t))
    return [sum(stored(t) // holders[t] for t in graph.tensors() if t in holders) for graph in every]


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
        """Return what a copy of `op` takes, of either graph."""
        into = block.values if op in inside else instead
        return [t if t is None else into.get(t, t) for t in op.inputs]

    ends = set(known) - downstream(reference, instead)
    returned = [instead.get(t, t) for t in reference.outputs]
    ops = list(_ordered(returned, read, ends))
    taken = dict.fromkeys(t for op in ops for t in read(op) if t in ends)
    copies = {t: _like(t) for t in taken if t is not None}
    inputs = list(copies.values())
    made = [_copy(op, read(op), copies) for op in ops]
    return Graph(inputs, [copies[t] for t in returned], made, reference.name)


def _ordered(
    outputs: list[Tensor], read: Callable[[Op], list[Tensor | None]], ends: set[Tensor]
) -> Iterable[Op]:
    """Return the operators that make `outputs` of `ends`, each behind those that make what it reads."""
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
    made = Op(
        op.kind,
        [t and copies[t] for t in inputs],
        [copies[t] for t in op.outputs],
        dict(op.attrs),
        op.version,
    )
    made.has_options, made.rest = op.has_options, op.rest
    return made


def _like(tensor: Tensor) -> Tensor:
    made = Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.data, tensor.quant)
    made.is_variable, made.shape_signature = tensor.is_variable, tensor.shape_signature
    made.rest = tensor.rest
    return made
