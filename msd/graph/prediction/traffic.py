"""What a graph's dispatches read, write and compute: bytes and operations, by the kind of operator.

Activations are counted without padding, each tensor once for each dispatch that reads or writes it; what
picks some elements of its operand reads no more than it writes. Weights are counted as the device stores them
(`msd.graph.prediction.stored_constants`), once for each dispatch that reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from msd.graph.ir import Graph, Op, Tensor
from msd.graph.prediction.arithmetic import arithmetic
from msd.graph.prediction.device import Device
from msd.graph.prediction.gpu_nodes import GpuNode
from msd.graph.prediction.storage import MOST, Precision, element_bytes
from msd.graph.prediction.stored_constants import kept_weights

PICKS = frozenset({"EMBEDDING_LOOKUP", "GATHER", "GATHER_ND", "SLICE", "SPLIT", "SPLIT_V", "STRIDED_SLICE"})
"""Operators that read as many elements of their operand as they write."""


@dataclass(frozen=True)
class Traffic:
    """The bytes that one dispatch reads and writes, of activations and of weights, and its arithmetic."""

    kind: str
    read: int
    written: int
    weights: int
    arithmetic: int

    def __add__(self, other: Traffic) -> Traffic:
        """Return the sum of two dispatches' traffic, of this one's kind."""
        return Traffic(
            kind=self.kind,
            read=self.read + other.read,
            written=self.written + other.written,
            weights=self.weights + other.weights,
            arithmetic=self.arithmetic + other.arithmetic,
        )

    @property
    def activations(self) -> int:
        """The bytes of activations read and written."""
        return self.read + self.written

    @property
    def bytes(self) -> int:
        """All bytes read and written."""
        return self.activations + self.weights


def traffic(
    nodes: Sequence[GpuNode], graph: Graph, device: Device, precision: Precision = "fp16"
) -> list[Traffic]:
    """Return the traffic of each of a graph's dispatches on a device, in order."""
    return with_weights(without_weights(nodes, precision), nodes, weights_of(graph, device, precision))


def without_weights(nodes: Iterable[GpuNode], precision: Precision = "fp16") -> list[Traffic]:
    """Return the traffic of each dispatch without its weights: the same on every device."""
    return [_of(node, precision) for node in nodes]


def with_weights(
    each: Sequence[Traffic], nodes: Sequence[GpuNode], weights: Mapping[Op, int]
) -> list[Traffic]:
    """Return the traffic of each of `nodes` with the bytes of its operators' weights."""
    counts = (sum(weights.get(op, 0) for op in node.ops) for node in nodes)
    return [replace(one, weights=count) if count else one for one, count in zip(each, counts, strict=True)]


def weights_of(graph: Graph, device: Device, precision: Precision = "fp16") -> Counter[Op]:
    """Return the bytes of the constants of each operator, as the device stores them."""
    weights: Counter[Op] = Counter()
    for stored in kept_weights(graph, device, precision):
        weights[graph.ops[stored.op]] += stored.bytes
    return weights


def _of(node: GpuNode, precision: Precision) -> Traffic:
    written = _bytes(node.writes, precision)
    picks = node.kind in PICKS or not node.ops
    return Traffic(
        kind=node.kind,
        read=written if picks else _bytes(tuple(dict.fromkeys(node.reads)), precision),
        written=written,
        weights=0,
        arithmetic=sum(_bounded(arithmetic(op)) for op in node.ops),
    )


def _bytes(tensors: Sequence[Tensor], precision: Precision) -> int:
    return sum(_bounded(tensor.size * element_bytes(tensor.dtype, precision)) for tensor in tensors)


def _bounded(count: int) -> int:
    """Return a count of a file's, whose shapes may be senseless, between nothing and what none reaches."""
    return max(0, min(count, MOST))


def by_kind(each: Iterable[Traffic]) -> dict[str, Traffic]:
    """Return the sums for each kind, that with the most activations first."""
    sums: dict[str, Traffic] = {}
    for one in each:
        sums[one.kind] = one + sums[one.kind] if one.kind in sums else one
    return dict(sorted(sums.items(), key=lambda item: -item[1].activations))
