"""The operators that run on the GPU when a delegate supports only some of them.

TensorFlow Lite partitions a graph into pieces, alternately delegated and not, each as large as its inputs
allow (tflite/graph_info.cc, PartitionGraphIntoIndependentNodeSubsets). It keeps the largest delegated pieces
and partitions again without the others (tflite/delegates/utils.cc, GraphPartitionHelper). Both GPU delegates
keep one piece (max_delegated_partitions), so one refused operator can halve the share of the GPU.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from msd.graph.ir import NUMPY, Graph, Op, Tensor


@dataclass(frozen=True)
class Piece:
    """A partition: operators, by number, that run in sequence on the same processor."""

    on_gpu: bool
    ops: tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """A host-device copy: a tensor that moves to or from the GPU each time the graph runs."""

    tensor: str
    bytes: int
    to_gpu: bool


@dataclass(frozen=True)
class Partitions:
    """How a graph is partitioned. `offered`: the size of each piece that the delegate supports."""

    offered: tuple[int, ...]
    pieces: tuple[Piece, ...]
    copies: tuple[Copy, ...]

    @property
    def on_gpu(self) -> tuple[int, ...]:
        """The operators that run on the GPU, in order."""
        return tuple(sorted(op for piece in self.pieces if piece.on_gpu for op in piece.ops))

    @property
    def kernels(self) -> int:
        """The number of pieces that run on the GPU: each is one kernel of the delegate."""
        return sum(piece.on_gpu for piece in self.pieces)


def partition(graph: Graph, supported: Collection[Op], most: int = 1) -> Partitions:
    """Return the partition for a delegate that supports `supported` and keeps its `most` largest pieces.

    Of equally large pieces it keeps the first. A DEQUANTIZE of float16 constants is delegated only if all
    other operators are; else it stays on the CPU and ends a piece, and delegated operators read the constants
    directly.
    """
    halves = {op for op in graph.ops if _dequantizes_float16(op)}
    delegable = set(supported) - halves
    if delegable | halves == set(graph.ops):
        offered, kept = [list(range(len(graph.ops)))] if graph.ops else [], set(graph.ops)
    else:
        offered = [list(piece.ops) for piece in _cut(graph, delegable, set()) if piece.on_gpu]
        largest = sorted(offered, key=len, reverse=True)[:most]
        kept = {graph.ops[i] for ops in largest for i in ops}
    pieces = _cut(graph, kept, halves)
    return Partitions(tuple(map(len, offered)), pieces, _copies(graph, pieces))


def _dequantizes_float16(op: Op) -> bool:
    return op.kind == "DEQUANTIZE" and any(t.data is not None and t.dtype == "FLOAT16" for t in op.operands)


def _has_effects(op: Op) -> bool:
    """Whether TensorFlow Lite assumes side effects (core/subgraph.cc, OpMightHaveSideEffect)."""
    resources = any(t.dtype == "RESOURCE" for t in (*op.operands, *op.outputs))
    return resources or op.kind in ("IF", "WHILE", "CALL_ONCE")


def _cut(graph: Graph, delegated: set[Op], unneeded: set[Op]) -> tuple[Piece, ...]:
    """Return the pieces: each has all operators that can run before the other processor must continue."""
    waiting, followers = _order(graph, delegated, unneeded)
    ready: dict[bool, list[int]] = {False: [], True: []}

    def release(i: int) -> None:
        heapq.heappush(ready[graph.ops[i] in delegated], i)

    for i, count in enumerate(waiting):
        if not count:
            release(i)
    pieces = []
    while ready[False] or ready[True]:
        on_gpu = not ready[False] or (bool(ready[True]) and ready[True][0] < ready[False][0])
        done = []
        while ready[on_gpu]:
            done.append(heapq.heappop(ready[on_gpu]))
            for follower in followers[done[-1]]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    release(follower)
        pieces.append(Piece(on_gpu, tuple(sorted(done))))
    return tuple(pieces)


def _order(graph: Graph, delegated: set[Op], unneeded: set[Op]) -> tuple[list[int], list[list[int]]]:
    """Return for each operator the number of operators it waits for, and those that wait for it.

    An operator with side effects waits for the previous one; those in `delegated` wait for no `unneeded` one.
    """
    number = {op: i for i, op in enumerate(graph.ops)}
    before: list[set[int]] = []
    last_effect: int | None = None
    for i, op in enumerate(graph.ops):
        makers = {t.producer for t in op.operands if t.producer in number}
        if op in delegated:
            makers -= unneeded
        before.append({number[maker] for maker in makers if maker is not None})
        if _has_effects(op):
            before[i] |= set() if last_effect is None else {last_effect}
            last_effect = i
    followers: list[list[int]] = [[] for _ in graph.ops]
    for i, earlier in enumerate(before):
        for j in earlier:
            followers[j].append(i)
    return [len(earlier) for earlier in before], followers


def _copies(graph: Graph, pieces: tuple[Piece, ...]) -> tuple[Copy, ...]:
    """Return the tensors that enter or leave each piece on the GPU, each once."""
    place = {graph.ops[i]: n for n, piece in enumerate(pieces) for i in piece.ops}
    returned = set(graph.outputs)
    copies: list[Copy] = []
    for n, piece in enumerate(pieces):
        ops = [graph.ops[i] for i in piece.ops] if piece.on_gpu else []
        read = dict.fromkeys(t for op in ops for t in op.operands)
        entering = [t for t in read if t.data is None and _piece_of(t, place) != n and not _is_dropped(t)]
        results = [t for op in ops for t in op.outputs]
        leaving = [t for t in results if t in returned or any(place.get(user) != n for user, _ in t.uses)]
        copies += [Copy(t.name, _bytes(t), True) for t in entering]
        copies += [Copy(t.name, _bytes(t), False) for t in leaving]
    return tuple(copies)


def _piece_of(tensor: Tensor, place: dict[Op, int]) -> int | None:
    return place.get(tensor.producer) if tensor.producer is not None else None


def _is_dropped(tensor: Tensor) -> bool:
    return tensor.producer is not None and _dequantizes_float16(tensor.producer)


def _bytes(tensor: Tensor) -> int:
    return tensor.size * (np.dtype(NUMPY[tensor.dtype]).itemsize if tensor.dtype in NUMPY else 1)
