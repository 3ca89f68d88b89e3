"""Where tensors lie in one piece of memory that those share which are not needed at the same time.

"Greedy by size for offset calculation", section 5.2 of Pisarchyk and Lee, Efficient Memory Management for
Deep Neural Net Inference (arXiv 2001.03288), as TensorFlow Lite's GPU delegate has it
(tensorflow/lite/delegates/gpu/common/memory_management/greedy_by_size_assignment.cc).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from msd.ir.weights import Array


@dataclass(frozen=True)
class Life:
    """A tensor of `size` bytes that is needed from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int


def offsets(lives: Sequence[Life]) -> list[int]:
    """Return where each tensor begins, in bytes.

    The largest is placed first; each into the smallest gap that holds it between those placed before that
    live at the same time, else behind the last of them. Of equal sizes the earlier in `lives` goes first.
    """
    placed = np.zeros((4, len(lives)), np.int64)
    made = [0] * len(lives)
    order = sorted(range(len(lives)), key=lambda i: -lives[i].size)
    for count, i in enumerate(order):
        life = lives[i]
        begins, ends, firsts, lasts = placed[:, :count]
        living = np.flatnonzero((firsts <= life.last) & (lasts >= life.first))
        made[i] = _gap(begins[living], ends[living], life.size)
        at = int(np.searchsorted(begins, made[i], side="right"))
        placed[:, at + 1 : count + 1] = placed[:, at:count].copy()
        placed[:, at] = made[i], made[i] + life.size, life.first, life.last
    return made


def _gap(begins: Array, ends: Array, size: int) -> int:
    """Return where `size` bytes go among pieces sorted by where they begin."""
    if not begins.size:
        return 0
    reached = np.maximum.accumulate(ends)
    before = np.concatenate([[0], reached[:-1]])
    gaps = begins - before
    wide = np.flatnonzero(gaps >= size)
    return int(before[wide[np.argmin(gaps[wide])]]) if wide.size else int(reached[-1])


def needed(lives: Sequence[Life], steps: int) -> list[int]:
    """Return for each step how many bytes live then: no plan takes fewer than the most of these."""
    change = [0] * (steps + 1)
    for life in lives:
        change[life.first] += life.size
        change[life.last + 1] -= life.size
    total, found = 0, []
    for step in range(steps):
        total += change[step]
        found.append(total)
    return found
