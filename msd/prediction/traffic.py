"""What a graph's dispatches read, write and compute: bytes and operations, by the kind of operator.

Activations are counted without padding, each tensor once for each dispatch that reads or writes it; what picks
some elements of its operand reads no more than it writes. Weights are counted as the device stores them
(`msd.prediction.stored_constants`), each time that a dispatch reads them: once a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msd.ir import Graph, Op, Tensor
from msd.prediction.arithmetic import arithmetic
from msd.prediction.device import Device
from msd.prediction.gpu_nodes import GpuNode
from msd.prediction.storage import Precision, element_bytes
from msd.prediction.stored_constants import kept_weights

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

    @property
    def activations(self) -> int:
        """The bytes of activations read and written."""
        return self.read + self.written

    @property
    def bytes(self) -> int:
        """All bytes read and written."""
        return self.activations + self.weights


def traffic(
    nodes: Iterable[GpuNode], graph: Graph, device: Device, precision: Precision = "fp16"
) -> list[Traffic]:
    """Return the traffic of each of a graph's dispatches on a device, in order."""
    weights = weights_of(graph, device, precision)
    return [_of(node, weights, precision) for node in nodes]


def weights_of(graph: Graph, device: Device, precision: Precision) -> Counter[Op]:
    """Return the bytes of the constants of each operator, as the device stores them."""
    weights: Counter[Op] = Counter()
    for stored in kept_weights(graph, device, precision):
        weights[graph.ops[stored.op]] += stored.bytes
    return weights


def _of(node: GpuNode, weights: Counter[Op], precision: Precision) -> Traffic:
    written = _bytes(node.writes, precision)
    picks = node.kind in PICKS or not node.ops
    read = written if picks else _bytes(tuple(dict.fromkeys(node.reads)), precision)
    return Traffic(
        kind=node.kind,
        read=read,
        written=written,
        weights=sum(weights[op] for op in node.ops),
        arithmetic=sum(arithmetic(op) for op in node.ops),
    )


def _bytes(tensors: Sequence[Tensor], precision: Precision) -> int:
    return sum(tensor.size * element_bytes(tensor.dtype, precision) for tensor in tensors)


def by_kind(each: Iterable[Traffic]) -> dict[str, Traffic]:
    """Return the sums for each kind, that with the most activations first."""
    sums: dict[str, Traffic] = {}
    for one in each:
        other = sums.get(one.kind, Traffic(one.kind, 0, 0, 0, 0))
        sums[one.kind] = Traffic(
            kind=one.kind,
            read=one.read + other.read,
            written=one.written + other.written,
            weights=one.weights + other.weights,
            arithmetic=one.arithmetic + other.arithmetic,
        )
    return dict(sorted(sums.items(), key=lambda item: -item[1].activations))
