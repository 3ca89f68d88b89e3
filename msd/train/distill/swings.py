"""Weights that swing between two integers, which training holds still.

A straight-through gradient pushes a weight to where two integers meet, and then to and fro: the more updates,
the more weights do (Nagel et al. 2022, arXiv 2203.11086, whose section 4 this is).
"""

from __future__ import annotations

from typing import Any

import torch

SHARE = 0.02
"""The share of one update in the running means of a weight's integers and swings; the paper's momentum."""

FIRST, LAST = 0.06, 0.005
"""The swings per update from which a weight is held still, at the first update and at the last."""

FREE = -128
"""What stands in place of a held weight's integer while it is free; no int4 is so small."""


BYTES = 7
"""What a weight takes beside itself: its last integer, direction and held integer, and two means."""


class Swings(torch.nn.Module):  # type: ignore[misc]
    """What the int4 of one weight have done in `updates` updates so far, and which of them are held still.

    All are buffers, which the state of a training contains: `BYTES` a weight.
    """

    def __init__(self, stored: Any, updates: int) -> None:
        super().__init__()
        self._each = 1 / updates
        small = stored.to(torch.int8)
        self.register_buffer("progress", torch.zeros((), device=stored.device))
        self.register_buffer("last", small)
        self.register_buffer("direction", torch.zeros_like(small))
        self.register_buffer("held", torch.full_like(small, FREE))
        self.register_buffer("mean", small.half())
        self.register_buffer("often", torch.zeros_like(self.mean))

    def hold(self, stored: Any) -> Any:
        """Return integers, those that are held still in their place."""
        return torch.where(self.is_held, self.held.to(stored.dtype), stored)

    @property
    def is_held(self) -> Any:
        """Which weights are held still, bools."""
        return self.held != FREE

    def add(self, stored: Any) -> None:
        """Count the integers after an update, and hold those still that swing too often, at their mean."""
        now = self.hold(stored).to(torch.int8)
        moved = (now - self.last).sign()
        swung = moved * self.direction < 0
        self.direction.copy_(torch.where(moved != 0, moved, self.direction))
        self.last.copy_(now)
        self.often.mul_(1 - SHARE).add_(swung.half(), alpha=SHARE)
        self.mean.mul_(1 - SHARE).add_(now.half(), alpha=SHARE)
        self.progress.add_(self._each)
        too_often = (self.often > FIRST + (LAST - FIRST) * self.progress) & ~self.is_held
        self.held.copy_(torch.where(too_often, self.mean.round().to(torch.int8), self.held))
