"""The place of a unit's indices in a tensor, whatever axes the tensor has.

A tensor's elements, in row-major order, are viewed as (pre, groups, count, post). An index of the unit is a
position along `count`, chosen separately in each of the `groups`; each index has `pre` × `post` elements.
Reshaping a tensor leaves this view as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

Shape = tuple[int, ...]


class Unprunable(Exception):
    """A channel cannot be removed; the message says where the search through the graph ended."""


class Refine(Exception):
    """The unit must be coarser or tied: its count is a multiple of `parts`, to be viewed as `how`.

    "groups": every part loses the same number of indices. "tied": every part loses the same indices.
    "blocks": whole parts are removed.
    """

    def __init__(self, how: str, parts: int) -> None:
        super().__init__(f"{how} of {parts}")
        self.how, self.parts = how, parts


@dataclass(frozen=True)
class UnitLayout:
    """A tensor's elements as (pre, groups, count, post)."""

    pre: int
    groups: int
    count: int
    post: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The view as a shape."""
        return self.pre, self.groups, self.count, self.post

    def core(self, shape: Shape) -> tuple[int, int]:
        """Return the run of axes, start and stop, that groups and count lie in."""
        start, stop = 0, len(shape)
        while start < stop and self.pre % prod(shape[: start + 1]) == 0:
            start += 1
        while stop > start and self.post % prod(shape[stop - 1 :]) == 0:
            stop -= 1
        return start, stop

    def unit(self, shape: Shape) -> tuple[int, int]:
        """Return the run of axes that count lies in; groups may have axes of their own before it."""
        start, stop = self.core(shape)
        before = self.pre * self.groups
        while start < stop - 1 and (
            prod(shape[: start + 1]) % self.pre == 0 and before % prod(shape[: start + 1]) == 0
        ):
            start += 1
        return start, stop

    def axis(self, shape: Shape) -> int:
        """Return the one axis that shrinks; raises Unprunable when count lies across several."""
        start, stop = self.unit(shape)
        wide = [i for i in range(start, stop) if shape[i] > 1]
        if len(wide) != 1:
            raise Unprunable(f"{self.count} units lie across several axes of {list(shape)}")
        return wide[0]

    def inner(self, shape: Shape) -> tuple[int, int]:
        """Return the parts of `pre` and `post` that lie in the core's own axes."""
        start, stop = self.core(shape)
        return self.pre // prod(shape[:start]), self.post // prod(shape[stop:])

    def moved(self, shape: Shape, to: Shape, start: int) -> UnitLayout:
        """Return the layout in a tensor of the shape `to` that has the core's axes of `shape` at `start`."""
        first, last = self.core(shape)
        pre, post = self.inner(shape)
        return replace(self, pre=pre * prod(to[:start]), post=post * prod(to[start + last - first :]))

    def spread(self, shape: Shape, to: Shape) -> UnitLayout | None:
        """Return the layout in a tensor broadcast with `shape`; None where `to` lacks the unit's axes."""
        shift = len(to) - len(shape)
        start, stop = self.core(shape)
        there = [to[i + shift] if i + shift >= 0 else 1 for i in range(start, stop)]
        if there == list(shape[start:stop]):
            return self.moved(shape, to, start + shift)
        if set(there[self.unit(shape)[0] - start :]) == {1}:
            return None
        raise Unprunable(f"{list(to)} is broadcast to {list(shape)} across the unit")

    def refined(self, refine: Refine) -> UnitLayout:
        """Return the layout of the unit as `refine` views it; raises Unprunable where that is impossible."""
        if self.groups > 1 or self.count % refine.parts or refine.parts in (1, self.count):
            raise Unprunable(f"{self.count} units cannot be viewed as {refine}")
        rest = self.count // refine.parts
        if refine.how == "groups":
            return replace(self, groups=refine.parts, count=rest)
        if refine.how == "tied":
            return replace(self, pre=self.pre * refine.parts, count=rest)
        return replace(self, count=refine.parts, post=self.post * rest)


def along(shape: Shape, axis: int) -> UnitLayout:
    """Return the layout of all indices of `axis`."""
    return UnitLayout(prod(shape[:axis]), 1, shape[axis], prod(shape[axis + 1 :]))
