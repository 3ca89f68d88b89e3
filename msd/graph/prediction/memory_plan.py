"""A memory plan: offsets in one block of memory, which tensors share unless they live at the same time.

"Greedy by size for offset calculation", section 5.2 of Pisarchyk and Lee, Efficient Memory Management for
Deep Neural Net Inference (arXiv 2001.03288), as TensorFlow Lite's GPU delegate implements it
(tensorflow/lite/delegates/gpu/common/memory_management/greedy_by_size_assignment.cc).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array


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
    return [offset for _, offset in places(lifetimes, sys.maxsize)]


def places(lifetimes: Sequence[Lifetime], most: int) -> list[tuple[int, int]]:
    """Return each tensor's block, counted from 0, and its offset in it, in blocks of at most `most` bytes.

    As `offsets`, but a tensor that would reach beyond the end of a block goes into the next that has room. A
    tensor larger than `most` has a block of its own size to begin with.
    """
    blocks: list[_Block] = []
    found = [(0, 0)] * len(lifetimes)
    for i in sorted(range(len(lifetimes)), key=lambda i: -lifetimes[i].size):
        lifetime = lifetimes[i]
        for number, block in enumerate(blocks):  # noqa: B007
            start = block.find(lifetime)
            if start + lifetime.size <= most:
                break
        else:
            blocks.append(_Block(len(lifetimes)))
            number, start = len(blocks) - 1, 0
        blocks[number].put(lifetime, start)
        found[i] = number, start
    return found


class _Block:
    """A block of memory, and what has been placed in it: begins, ends, first and last steps, by begins."""

    def __init__(self, most: int) -> None:
        self._placed = np.zeros((4, most), np.int64)
        self._count = 0

    def find(self, lifetime: Lifetime) -> int:
        """Return the offset where a tensor fits."""
        begins, ends, firsts, lasts = self._placed[:, : self._count]
        living = np.flatnonzero((firsts <= lifetime.last) & (lasts >= lifetime.first))
        return _gap(begins[living], ends[living], lifetime.size)

    def put(self, lifetime: Lifetime, start: int) -> None:
        """Place a tensor."""
        count, placed = self._count, self._placed
        at = int(np.searchsorted(placed[0, :count], start, side="right"))
        placed[:, at + 1 : count + 1] = placed[:, at:count].copy()
        placed[:, at] = start, start + lifetime.size, lifetime.first, lifetime.last
        self._count += 1


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
