"""What a file's dispatches read, write and compute, and the least time that each device needs for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msd.ir import Graph
from msd.prediction.device import Device, find_device, shipped
from msd.prediction.fusion import fused
from msd.prediction.gpu_nodes import GpuNode, unfused
from msd.prediction.registry import find_delegate
from msd.prediction.roofline import Roofline, is_known
from msd.prediction.traffic import Traffic, by_kind, traffic
from msd.report.report import CountedTraffic, LeastTime, TrafficSum


def counted_traffic(graph: Graph, device: Device, delegate: str) -> CountedTraffic:
    """Return the traffic of a graph on `device`, and the least times there and on every shipped device."""
    apart, joined = unfused(graph), fused(graph, find_delegate(delegate))
    return CountedTraffic(
        unfused=_sum(traffic(apart, graph, device)),
        fused=_sum(traffic(joined, graph, device)),
        least=tuple(_least(graph, each, apart, joined) for each in _devices(device, delegate)),
    )


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


def _least(graph: Graph, device: Device, apart: Sequence[GpuNode], joined: Sequence[GpuNode]) -> LeastTime:
    if not is_known(device):
        return LeastTime(device.name, None, None)
    roofline = Roofline.of(device)
    seconds = [roofline.seconds(traffic(nodes, graph, device)) for nodes in (apart, joined)]
    return LeastTime(device.name, *seconds)
