"""The least time that a device needs for dispatches, by what they read, write and compute.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore
architectures", Communications of the ACM 52(4), 2009: a kernel takes at least the time to move its bytes, and
at least the time of its arithmetic. Nothing is cached between dispatches, and no dispatch overlaps another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from msd.errors import BadConfig
from msd.graph.prediction.device import FIGURES, Device


class Work(Protocol):
    """What one dispatch moves, in bytes, and computes, in additions and multiplications."""

    @property
    def bytes(self) -> int:
        """The bytes that it reads and writes."""

    @property
    def arithmetic(self) -> int:
        """The additions and multiplications that it computes."""


@dataclass(frozen=True)
class Roofline:
    """A device's memory bandwidth in bytes and its peak arithmetic in operations, both a second.

    `half_flops` are those of float16, `float_flops` of float32, which the kernels' sums have.
    """

    name: str
    bandwidth: float
    half_flops: float
    float_flops: float

    @staticmethod
    def of(device: Device) -> Roofline:
        """Return the roofline of a described device; raises BadConfig where a figure is missing."""
        if not is_known(device):
            lacking = "memory_bandwidth, half_flops and float_flops"
            raise BadConfig(f"the description of {device.name} does not say all of {lacking}")
        return Roofline(device.name, *(float(getattr(device, figure)) for figure in FIGURES))

    def seconds(self, dispatches: Iterable[Work], half: bool = True) -> float:
        """Return the sum of the dispatches' least times, by the peak of float16 or of float32."""
        peak = self.half_flops if half else self.float_flops
        return sum(max(each.bytes / self.bandwidth, each.arithmetic / peak) for each in dispatches)


def is_known(device: Device) -> bool:
    """Whether the device's description has every figure of a roofline."""
    return all(getattr(device, figure) is not None for figure in FIGURES)
