"""The dispatches that remain when a delegate has joined those it joins.

As its source has it: `MergeElementwiseNodes` and `MergeNodes` of TensorFlow Lite's delegate
(gpu/common/gpu_model.cc); `MergeReorderNodes`, `MergeElementwiseNodes` and `LinkNodes` of LiteRT's
(ml_drift/common/merge_nodes.cc, which its default front end comes to); before them the patterns of
`msd.graph.prediction.special_nodes`. A result of the graph is always written, whatever else reads it.

What a delegate adds is not counted: Winograd's transforms, and the second matrix of a BATCH_MATMUL, which it
repacks as weights of a convolution. Nor is what it folds into such weights: msd's rewrites leave it nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from msd.graph.ir import Graph, Tensor
from msd.graph.prediction.delegate import Delegate
from msd.graph.prediction.gpu_nodes import GpuNode, parsed
from msd.graph.prediction.special_nodes import readers_of, whole_numbers, with_special_nodes
from msd.graph.prediction.stored_constants import constant


def fused(graph: Graph, delegate: Delegate) -> list[GpuNode]:
    """Return the dispatches of a graph with a delegate, in order."""
    nodes = with_special_nodes(parsed(graph, delegate), graph.outputs, delegate)
    if delegate.joins_moves:
        nodes = _join_moves(nodes, graph.outputs)
    nodes = _Elementwise(nodes, graph.outputs).merged()
    return _link(nodes, graph)


def _join_moves(nodes: Sequence[GpuNode], outputs: Sequence[Tensor]) -> list[GpuNode]:
    """Return `nodes` with RESHAPE and TRANSPOSE joined to the one that alone reads them."""
    readers = readers_of(nodes, outputs)
    before: dict[Tensor, GpuNode] = {}
    kept = []
    for node in nodes:
        if node.reads and node.reads[0] in before:
            first = before.pop(node.reads[0])
            node = replace(node, ops=(*first.ops, *node.ops), reads=first.reads)
        users = readers.get(node.writes[0], [])
        if len(users) == 1 and _moves_channels_whole(node) and _moves_channels_whole(users[0]):
            before[node.writes[0]] = node
        else:
            kept.append(node)
    return kept


def _moves_channels_whole(node: GpuNode) -> bool:
    """Whether the dispatch only moves pixels of four channels: ML Drift's reorder operations.

    Those are RESHAPE between numbers of channels that four divides (kernels/reshapex4.cc), and TRANSPOSE that
    leaves the channels last (kernels/transpose.cc).
    """
    if not node.ops or len(node.reads) != 1 or not node.reads[0].shape:
        return False
    op = node.ops[-1]
    source, result = op.operands[0].shape, op.outputs[0].shape
    if op.kind == "RESHAPE":
        return bool(source and result) and source[-1] % 4 == 0 and result[-1] % 4 == 0
    axes = whole_numbers(op) if op.kind == "TRANSPOSE" else None
    return axes is not None and axes.size == len(source) and axes.ravel()[-1] == len(source) - 1


class _Elementwise:
    """Joins elementwise dispatches with each other: `MergeElementwiseNodes`."""

    def __init__(self, nodes: Sequence[GpuNode], outputs: Sequence[Tensor]) -> None:
        self._nodes = [*nodes]
        self._makers = {node.writes[0]: node for node in nodes}
        self._uses = Counter(tensor for node in nodes for tensor in node.reads)
        self._uses.update(outputs)

    def merged(self) -> list[GpuNode]:
        """Return the dispatches that remain, in order."""
        place = 1
        while place < len(self._nodes):
            root = self._nodes[place]
            befores = self._joinable(root)
            place = self._join(befores, root, place) if befores else place + 1
        return self._nodes

    def _joinable(self, root: GpuNode) -> tuple[GpuNode, ...]:
        """Return the dispatches before `root` that become one with it: none, one or two."""
        if not root.elementwise or len(root.writes) != 1 or len(root.reads) > 2:
            return ()
        makers = [self._makers.get(tensor) for tensor in root.reads]
        if len(makers) == 1:
            before = makers[0]
            return (before,) if before and _is_simple(before) and self._is_alone(before) else ()
        first, second = makers
        if first is None or second is None or root.elementwise != 2:
            return ()
        if _is_simple(first) and not second.elementwise:
            return (first,) if self._reads_of(first, second) and self._is_alone(first) else ()
        if _is_simple(second) and not first.elementwise:
            return (second,) if self._reads_of(second, first) and self._is_alone(second) else ()
        both = _is_simple(first) and _is_simple(second)
        parent = self._makers.get(first.reads[0]) if both else None
        alone = both and self._is_alone(first) and self._is_alone(second)
        return (first, second) if alone and parent and self._reads_of(second, parent) else ()

    def _reads_of(self, node: GpuNode, maker: GpuNode) -> bool:
        return len(maker.writes) == 1 and self._makers.get(node.reads[0]) is maker

    def _is_alone(self, node: GpuNode) -> bool:
        """Whether one dispatch reads the result, once."""
        return self._uses[node.writes[0]] == 1

    def _join(self, befores: tuple[GpuNode, ...], root: GpuNode, place: int) -> int:
        """Put one dispatch in the place of the first of `befores`; return the place to go on from."""
        ops = (*(op for before in befores for op in before.ops), *root.ops)
        joined = GpuNode(ops, befores[0].reads, root.writes, 1)
        for node in (*befores, root):
            self._uses.subtract(node.reads)
        self._uses.update(joined.reads)
        self._makers[root.writes[0]] = joined
        places = sorted(self._nodes.index(before) for before in befores)
        for gone in (place, *places[:0:-1]):
            del self._nodes[gone]
        self._nodes[places[0]] = joined
        return places[0] + (len(befores) == 1)


def _is_simple(node: GpuNode) -> bool:
    """Whether an elementwise dispatch reads one tensor."""
    return node.elementwise > 0 and len(node.reads) == len(node.writes) == 1


def _link(nodes: Sequence[GpuNode], graph: Graph) -> list[GpuNode]:
    """Return `nodes` with each elementwise dispatch linked to the one whose result it alone reads, first.

    All else that it reads must be ready by then: `LinkNodes`, `MergeNodes`.
    """
    ready = {*graph.inputs, *(t for t in graph.tensors() if constant(t) is not None)}
    uses: dict[Tensor, list[tuple[int, int]]] = {}
    for place, node in enumerate(nodes):
        for index, tensor in enumerate(node.reads):
            uses.setdefault(tensor, []).append((place, index))
    linked: set[int] = set()
    kept = []
    for place, node in enumerate(nodes):
        if place in linked:
            continue
        ready.update(node.writes)
        while (found := _linkable(node, nodes, uses, place)) is not None:
            other = nodes[found]
            if found in linked or not ready.issuperset(other.reads) or node.writes[0] in graph.outputs:
                break
            linked.add(found)
            reads = (*node.reads, *other.reads[1:])
            node = replace(node, ops=(*node.ops, *other.ops), reads=reads, writes=other.writes)
            ready.update(node.writes)
        kept.append(node)
    return kept


def _linkable(
    node: GpuNode, nodes: Sequence[GpuNode], uses: dict[Tensor, list[tuple[int, int]]], place: int
) -> int | None:
    """Return the place of the only dispatch that reads the result, if it is linkable and reads it first."""
    later = [use for use in uses.get(node.writes[0], []) if use[0] > place]
    if len(node.writes) != 1 or len(later) != 1 or later[0][1] != 0:
        return None
    found = later[0][0]
    return found if nodes[found].elementwise and len(nodes[found].writes) == 1 else None
