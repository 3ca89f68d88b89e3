"""Rows of a tensor in a file, read by themselves: a large one need not be in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class RowReader:
    """A tensor of which `read(first, stop)` returns those of axis 0; `axes` is the order of its axes now."""

    read: Callable[[int, int], Array]
    axes: tuple[int, ...]

    @property
    def are_first(self) -> bool:
        """Whether axis 0 is still the first, so that `take` returns rows."""
        return self.axes[0] == 0

    def take(self, first: int, stop: int) -> Array:
        """Return the rows from `first` up to `stop`, with their axes in order."""
        return np.transpose(self.read(first, stop), self.axes)

    def transposed(self, perm: tuple[int, ...]) -> RowReader:
        """Return the rows with axes in another order."""
        return replace(self, axes=tuple(self.axes[i] for i in perm))

    def reshaped(self, rows: int, shape: tuple[int, ...]) -> RowReader | None:
        """Return these `rows` in another shape; None where that has other rows."""
        if not self.are_first or shape[:1] != (rows,):
            return None
        return _plain(lambda a, b: self.take(a, b).reshape(b - a, *shape[1:]), len(shape))

    def cut(self, axis: int, start: int, stop: int) -> RowReader | None:
        """Return the elements `start:stop` along `axis`; None where the rows are not first."""
        if not self.are_first:
            return None
        if axis == 0:
            return _plain(lambda a, b: self.take(start + a, start + b), len(self.axes))
        part = (*[slice(None)] * axis, slice(start, stop))
        return _plain(lambda a, b: self.take(a, b)[part], len(self.axes))


def _plain(read: Callable[[int, int], Array], rank: int) -> RowReader:
    return RowReader(read, tuple(range(rank)))
