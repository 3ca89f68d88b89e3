"""Which operators run on the GPU when a delegate takes some of them.

TensorFlow Lite cuts a graph into pieces that are delegated or not, one after the other, each as large as its
inputs allow (tflite/graph_info.cc, PartitionGraphIntoIndependentNodeSubsets), keeps the largest delegated
ones and cuts once more with the rest given up (tflite/delegates/utils.cc, GraphPartitionHelper). Both GPU
delegates keep one (max_delegated_partitions), so one refused operator can halve what runs on the GPU.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from msd.ir import NUMPY, Graph, Op, Tensor


@dataclass(frozen=True)
class Piece:
    """Operators, by number, that run one after the other on the same processor."""

    on_gpu: bool
    ops: tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """A tensor that goes to the GPU, or comes from it, each time the graph runs."""

    tensor: str
    bytes: int
    to_gpu: bool


@dataclass(frozen=True)
class Partitions:
    """How a graph is cut. `offered`: how many operators each piece has that the delegate could have taken."""

    offered: tuple[int, ...]
    pieces: tuple[Piece, ...]
    copies: tuple[Copy, ...]

    @property
    def on_gpu(self) -> tuple[int, ...]:
        """The operators that run on the GPU, in order."""
        return tuple(sorted(op for piece in self.pieces if piece.on_gpu for op in piece.ops))

    @property
    def kernels(self) -> int:
        """How many pieces run on the GPU: each is one kernel of the delegate."""
        return sum(piece.on_gpu for piece in self.pieces)


def partition(graph: Graph, taken: Collection[Op], most: int = 1) -> Partitions:
    """Return how `graph` is cut when a delegate takes `taken` and keeps its `most` largest pieces.

    Of pieces as large as one another the first is kept. A DEQUANTIZE of float16 constants is taken only where
    all else is. Elsewhere it stays on the CPU and ends a piece; what is kept then reads the constants itself.
    """
    halves = {op for op in graph.ops if _is_half_constant(op)}
    willing = set(taken) - halves
    if willing | halves == set(graph.ops):
        offered, kept = [list(range(len(graph.ops)))] if graph.ops else [], set(graph.ops)
    else:
        offered = [list(piece.ops) for piece in _cut(graph, willing, set()) if piece.on_gpu]
        largest = sorted(offered, key=len, reverse=True)[:most]
        kept = {graph.ops[i] for ops in largest for i in ops}
    pieces = _cut(graph, kept, halves)
    return Partitions(tuple(map(len, offered)), pieces, _copies(graph, pieces))


def _is_half_constant(op: Op) -> bool:
    return op.kind == "DEQUANTIZE" and any(t.data is not None and t.dtype == "FLOAT16" for t in op.operands)


def _has_effects(op: Op) -> bool:
    """As TensorFlow Lite sees it: core/subgraph.cc, OpMightHaveSideEffect."""
    resources = any(t.dtype == "RESOURCE" for t in (*op.operands, *op.outputs))
    return resources or op.kind in ("IF", "WHILE", "CALL_ONCE")


def _cut(graph: Graph, taken: set[Op], unneeded: set[Op]) -> tuple[Piece, ...]:
    """Each piece takes all that can run before the other processor must; the first that is ready begins."""
    waiting, followers = _order(graph, taken, unneeded)
    ready: dict[bool, list[int]] = {False: [], True: []}

    def release(i: int) -> None:
        heapq.heappush(ready[graph.ops[i] in taken], i)

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


def _order(graph: Graph, taken: set[Op], unneeded: set[Op]) -> tuple[list[int], list[list[int]]]:
    """Return how many operators each waits for, and who waits for it.

    Operators with side effects wait for the one before; those taken wait for none of `unneeded`.
    """
    number = {op: i for i, op in enumerate(graph.ops)}
    before: list[set[int]] = []
    last_effect: int | None = None
    for i, op in enumerate(graph.ops):
        makers = {t.producer for t in op.operands if t.producer in number}
        if op in taken:
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
    """Each piece on the GPU gets what others made and hands over what others read, each tensor once."""
    place = {graph.ops[i]: n for n, piece in enumerate(pieces) for i in piece.ops}
    returned = set(graph.outputs)
    found: list[Copy] = []
    for n, piece in enumerate(pieces):
        ops = [graph.ops[i] for i in piece.ops] if piece.on_gpu else []
        read = dict.fromkeys(t for op in ops for t in op.operands)
        given = [t for t in read if t.data is None and _made_in(t, place) != n and not _dropped(t)]
        made = [t for op in ops for t in op.outputs]
        asked = [t for t in made if t in returned or any(place.get(user) != n for user, _ in t.uses)]
        found += [Copy(t.name, _bytes(t), True) for t in given]
        found += [Copy(t.name, _bytes(t), False) for t in asked]
    return tuple(found)


def _made_in(tensor: Tensor, place: dict[Op, int]) -> int | None:
    return place.get(tensor.producer) if tensor.producer is not None else None


def _dropped(tensor: Tensor) -> bool:
    return tensor.producer is not None and _is_half_constant(tensor.producer)


def _bytes(tensor: Tensor) -> int:
    return tensor.size * (np.dtype(NUMPY[tensor.dtype]).itemsize if tensor.dtype in NUMPY else 1)
