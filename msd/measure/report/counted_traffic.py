"""What a file's dispatches read, write and compute, and the least time that each device needs for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msd.graph.ir import Graph
from msd.graph.prediction.device import Device, find_device, shipped
from msd.graph.prediction.fusion import fused
from msd.graph.prediction.gpu_nodes import GpuNode, unfused
from msd.graph.prediction.registry import find_delegate
from msd.graph.prediction.roofline import Roofline, is_known
from msd.graph.prediction.traffic import Traffic, by_kind, weights_of, with_weights, without_weights
from msd.measure.report.report import CountedTraffic, LeastTime, TrafficSum


def counted_traffic(graph: Graph, device: Device, delegate: str) -> CountedTraffic:
    """Return the traffic of a graph on `device`, and the least times there and on every shipped device."""
    kinds = (unfused(graph), fused(graph, find_delegate(delegate)))
    both = [(nodes, without_weights(nodes)) for nodes in kinds]
    weights = weights_of(graph, device)
    apart, joined = (_sum(with_weights(each, nodes, weights)) for nodes, each in both)
    least = tuple(_least(graph, other, both) for other in _devices(device, delegate))
    return CountedTraffic(apart, joined, least)


def _sum(each: Sequence[Traffic]) -> TrafficSum:
    return TrafficSum(
        dispatches=len(each),
        activations=sum(one.activations for one in each),
        weights=sum(one.weights for one in each),
        arithmetic=sum(one.arithmetic for one in each),
        kinds={kind: one.activations for kind, one in by_kind(each).items()},
    )


def _devices(device: Device, delegate: str) -> Iterator[Device]:
    """Yield the device, then the shipped ones of other names, as the delegate uses them."""
    yield device
    yield from (find_device(name).under(delegate) for name in shipped() if name != device.name)


def _least(
    graph: Graph, device: Device, both: Sequence[tuple[Sequence[GpuNode], Sequence[Traffic]]]
) -> LeastTime:
    if not is_known(device):
        return LeastTime(device.name, None, None)
    roofline, weights = Roofline.of(device), weights_of(graph, device)
    apart, joined = (roofline.seconds(with_weights(each, nodes, weights)) for nodes, each in both)
    return LeastTime(device.name, apart, joined)
