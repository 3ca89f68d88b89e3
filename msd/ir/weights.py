"""Weights that are described, not held: a shape, a dtype, and how to load the bytes when they are wanted.

Every transformation of a weight (transpose, slice, scale …) is added to the description. Bytes move once,
when a file is written, and one tensor is in memory at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SMALL = 1 << 16
"""The most elements that a rewrite may look at (`Weights.load_small`)."""


@dataclass(frozen=True, eq=False)
class Weights:
    """An array that is not there yet.

    `load()` returns the array, freshly made or read-only, of exactly `shape` and `dtype`.
    `recipe` says in words where it comes from and what is done to it.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    load: Callable[[], Array]
    recipe: str
    exact: bool = False
    """Whether the program itself wrote these numbers down: they are not learnt, and stored without loss."""
    sources: tuple[str, ...] = ()
    """The checkpoint's tensors that these are made of, by the names that the network's modules have there."""

    @staticmethod
    def of(values: npt.ArrayLike, recipe: str = "constant") -> Weights:
        """Weights that hold `values` already."""
        array = np.asarray(values).view()
        array.flags.writeable = False
        return Weights(array.shape, array.dtype, lambda: array, recipe, exact=True)

    def as_exact(self) -> Weights:
        """Return the same weights, to be stored without loss."""
        return replace(self, exact=True)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    def load_small(self) -> Array:
        """Return the array now; refuses more than `SMALL` elements, which belong to write time."""
        if self.size > SMALL:
            raise ValueError(f"{self.recipe} has {self.size} elements: too many to look at before writing")
        return self.load()

    def map(
        self,
        what: str,
        change: Callable[[Array], Array],
        shape: tuple[int, ...] | None = None,
        dtype: npt.DTypeLike = None,
    ) -> Weights:
        """Return weights made by `change` at load time; `shape` and `dtype` say what it will return."""
        new_shape = self.shape if shape is None else tuple(shape)
        new_dtype = self.dtype if dtype is None else np.dtype(dtype)

        def load() -> Array:
            array = change(self.load())
            if array.shape != new_shape or array.dtype != new_dtype:
                raise AssertionError(f"{what} made {array.dtype}{array.shape}, not {new_dtype}{new_shape}")
            return array

        return Weights(new_shape, new_dtype, load, f"{self.recipe} | {what}", self.exact, self.sources)

    def transpose(self, perm: tuple[int, ...]) -> Weights:
        """Return the weights with axes in the order `perm`."""
        if sorted(perm) != list(range(len(self.shape))):
            raise ValueError(f"{perm} does not order the axes of {self.shape}")
        shape = tuple(self.shape[i] for i in perm)
        return self.map(f"transpose{list(perm)}", lambda a: np.transpose(a, perm), shape)

    def reshape(self, shape: tuple[int, ...]) -> Weights:
        """Return the weights as `shape`, in the same row-major order."""
        if math.prod(shape) != self.size:
            raise ValueError(f"cannot reshape {self.shape} to {shape}")
        return self.map(f"reshape{list(shape)}", lambda a: a.reshape(shape), shape)

    def slice(self, axis: int, start: int, stop: int) -> Weights:
        """Return elements `start:stop` along `axis`, counted from 0."""
        if axis < 0 or not 0 <= start < stop <= self.shape[axis]:
            raise ValueError(f"cannot take {start}:{stop} of {self.shape} on axis {axis}")
        cut = (*[slice(None)] * axis, slice(start, stop))
        shape = (*self.shape[:axis], stop - start, *self.shape[axis + 1 :])
        return self.map(f"[{start}:{stop}] on axis {axis}", lambda a: a[cut], shape)

    def astype(self, dtype: npt.DTypeLike) -> Weights:
        """Return the weights cast to `dtype`."""
        wanted = np.dtype(dtype)
        return (
            self if wanted == self.dtype else self.map(wanted.name, lambda a: a.astype(wanted), dtype=wanted)
        )

    def combine(self, what: str, change: Callable[..., Array], *others: Weights) -> Weights:
        """Return `change(self, *others)`, of this dtype and the shape that NumPy's broadcasting makes."""
        shape = np.broadcast_shapes(self.shape, *(o.shape for o in others))
        made = self.map(what, lambda a: change(a, *(o.load() for o in others)), shape)
        every = (self, *others)
        return replace(made, exact=all(w.exact for w in every), sources=joined_sources(every))


def joined_sources(parts: Iterable[Weights]) -> tuple[str, ...]:
    """Return what `parts` together are made of, each name once."""
    return tuple(dict.fromkeys(name for part in parts for name in part.sources))
