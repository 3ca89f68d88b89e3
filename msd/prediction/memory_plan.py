"""A memory plan: offsets in one block of memory, which tensors share unless they live at the same time.

"Greedy by size for offset calculation", section 5.2 of Pisarchyk and Lee, Efficient Memory Management for
Deep Neural Net Inference (arXiv 2001.03288), as TensorFlow Lite's GPU delegate implements it
(tensorflow/lite/delegates/gpu/common/memory_management/greedy_by_size_assignment.cc).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from msd.ir.weights import Array


@dataclass(frozen=True)
class Lifetime:
    """A tensor of `size` bytes that lives from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int


def offsets(lifetimes: Sequence[Lifetime]) -> list[int]:
    """Return the offset of each tensor in bytes.

    The largest tensor is placed first. Each goes into the smallest sufficient gap between earlier ones that
    live at the same time, else behind the last of them. Of equal sizes the first in `lifetimes` comes first.
    """
    placed = np.zeros((4, len(lifetimes)), np.int64)
    starts = [0] * len(lifetimes)
    order = sorted(range(len(lifetimes)), key=lambda i: -lifetimes[i].size)
    for count, i in enumerate(order):
        lifetime = lifetimes[i]
        begins, ends, firsts, lasts = placed[:, :count]
        living = np.flatnonzero((firsts <= lifetime.last) & (lasts >= lifetime.first))
        starts[i] = _gap(begins[living], ends[living], lifetime.size)
        at = int(np.searchsorted(begins, starts[i], side="right"))
        placed[:, at + 1 : count + 1] = placed[:, at:count].copy()
        placed[:, at] = starts[i], starts[i] + lifetime.size, lifetime.first, lifetime.last
    return starts


def _gap(begins: Array, ends: Array, size: int) -> int:
    """Return the offset for `size` bytes among blocks sorted by `begins`."""
    if not begins.size:
        return 0
    reached = np.maximum.accumulate(ends)
    before = np.concatenate([[0], reached[:-1]])
    gaps = begins - before
    wide = np.flatnonzero(gaps >= size)
    return int(before[wide[np.argmin(gaps[wide])]]) if wide.size else int(reached[-1])


def live_bytes(lifetimes: Sequence[Lifetime], steps: int) -> list[int]:
    """Return the bytes that live at each step: no plan needs less than their maximum."""
    change = [0] * (steps + 1)
    for lifetime in lifetimes:
        change[lifetime.first] += lifetime.size
        change[lifetime.last + 1] -= lifetime.size
    total, totals = 0, []
    for step in range(steps):
        total += change[step]
        totals.append(total)
    return totals
