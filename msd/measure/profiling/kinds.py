"""The dispatches of a network added up by kernel, and by kind of kernel."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msd.measure.profiling.result import DispatchCost


@dataclass(frozen=True)
class KernelCost:
    """Some dispatches together: their number, seconds, and what is counted of them."""

    name: str
    dispatches: int
    seconds: float
    flops: int
    bytes: int
    least_seconds: float

    @property
    def roof(self) -> float:
        """The share of the time that the GPU's peaks allow; 0 where the clock saw no time pass."""
        return self.least_seconds / self.seconds if self.seconds else 0.0

    @property
    def flops_per_second(self) -> float:
        """Additions and multiplications a second; 0 where the clock saw no time pass."""
        return self.flops / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Bytes read and written a second; 0 where the clock saw no time pass."""
        return self.bytes / self.seconds if self.seconds else 0.0


def by_kind(dispatches: Sequence[DispatchCost]) -> list[KernelCost]:
    """Return the costs of each kind of kernel, the most expensive first."""
    return _grouped(dispatches, lambda each: kind_of(each.kernel))


def by_kernel(dispatches: Sequence[DispatchCost]) -> list[KernelCost]:
    """Return the costs of each kernel, the most expensive first."""
    return _grouped(dispatches, lambda each: each.kernel)


def total(name: str, dispatches: Sequence[DispatchCost]) -> KernelCost:
    """Return the sum of some dispatches."""
    return KernelCost(
        name=name,
        dispatches=len(dispatches),
        seconds=sum(each.seconds for each in dispatches),
        flops=sum(each.flops for each in dispatches),
        bytes=sum(each.bytes for each in dispatches),
        least_seconds=sum(each.least_seconds for each in dispatches),
    )


def kind_of(kernel: str) -> str:
    """Return the kind of a kernel: the words that its name begins with, without sizes and operands."""
    found = re.match(r"[A-Za-z]{2,}(?: [A-Za-z]{2,})*", kernel)
    return found.group() if found else kernel


def _grouped(dispatches: Sequence[DispatchCost], key: Callable[[DispatchCost], str]) -> list[KernelCost]:
    named: dict[str, list[DispatchCost]] = {}
    for each in dispatches:
        named.setdefault(key(each), []).append(each)
    return sorted((total(name, group) for name, group in named.items()), key=lambda cost: -cost.seconds)
