"""Lazy weights: a shape, a dtype, and a function that loads the bytes when they are needed.

Every transformation of a weight (transpose, slice, scale …) extends this function. The bytes move once, when
a file is written, one tensor in memory at a time.
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
"""The largest number of elements whose values a rewrite may read (`Weights.load_small`)."""


@dataclass(frozen=True, eq=False)
class Weights:
    """An array that is loaded on demand.

    `load()` returns the array, new or read-only, of exactly `shape` and `dtype`. `recipe` describes for
    people where it comes from and how it is transformed.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    load: Callable[[], Array]
    recipe: str
    exact: bool = False
    """Whether the numbers are not learnt but set by this program, which stores them without loss."""
    sources: tuple[str, ...] = ()
    """The names of the checkpoint's tensors that these are computed from."""

    @staticmethod
    def of(values: npt.ArrayLike, recipe: str = "constant") -> Weights:
        """Return weights that hold `values` in memory."""
        array = np.asarray(values).view()
        array.flags.writeable = False
        return Weights(shape=array.shape, dtype=array.dtype, load=lambda: array, recipe=recipe, exact=True)

    def as_exact(self) -> Weights:
        """Return the same weights, marked to be stored without loss."""
        return replace(self, exact=True)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def load_small(self) -> Array:
        """Return the array; raises ValueError for more than `SMALL` elements, which only a writer loads."""
        if self.size > SMALL:
            raise ValueError(f"{self.recipe} has {self.size} elements: too many to read before writing")
        return self.load()

    def map(
        self,
        what: str,
        change: Callable[[Array], Array],
        shape: tuple[int, ...] | None = None,
        dtype: npt.DTypeLike = None,
    ) -> Weights:
        """Return weights that apply `change` at load time; its result has `shape` and `dtype`.

        `what` names the change in the recipe.
        """
        new_shape = self.shape if shape is None else tuple(shape)
        new_dtype = self.dtype if dtype is None else np.dtype(dtype)

        def load() -> Array:
            array = change(self.load())
            if array.shape != new_shape or array.dtype != new_dtype:
                raise AssertionError(
                    f"{what} returned {array.dtype}{array.shape}, not {new_dtype}{new_shape}"
                )
            return array

        return Weights(
            shape=new_shape,
            dtype=new_dtype,
            load=load,
            recipe=f"{self.recipe} | {what}",
            exact=self.exact,
            sources=self.sources,
        )

    def transpose(self, perm: tuple[int, ...]) -> Weights:
        """Return the weights with axes in the order `perm`."""
        if sorted(perm) != list(range(len(self.shape))):
            raise ValueError(f"{perm} does not order the axes of {self.shape}")
        shape = tuple(self.shape[i] for i in perm)
        return self.map(f"transpose{list(perm)}", lambda a: np.transpose(a, perm), shape)

    def reshape(self, shape: tuple[int, ...]) -> Weights:
        """Return the weights in another shape, in the same row-major order."""
        if math.prod(shape) != self.size:
            raise ValueError(f"cannot reshape {self.shape} to {shape}")
        return self.map(f"reshape{list(shape)}", lambda a: a.reshape(shape), shape)

    def slice(self, axis: int, start: int, stop: int) -> Weights:
        """Return the elements `start:stop` along `axis`, which is not negative."""
        if axis < 0 or not 0 <= start < stop <= self.shape[axis]:
            raise ValueError(f"cannot take {start}:{stop} of {self.shape} on axis {axis}")
        cut = (*[slice(None)] * axis, slice(start, stop))
        shape = (*self.shape[:axis], stop - start, *self.shape[axis + 1 :])
        return self.map(f"[{start}:{stop}] on axis {axis}", lambda a: a[cut], shape)

    def astype(self, dtype: npt.DTypeLike) -> Weights:
        """Return the weights cast to `dtype`."""
        target = np.dtype(dtype)
        return (
            self if target == self.dtype else self.map(target.name, lambda a: a.astype(target), dtype=target)
        )

    def combine(self, what: str, change: Callable[..., Array], *others: Weights) -> Weights:
        """Return `change(self, *others)`, of this dtype and of the shape that NumPy's broadcasting gives."""
        shape = np.broadcast_shapes(self.shape, *(o.shape for o in others))
        combined = self.map(what, lambda a: change(a, *(o.load() for o in others)), shape)
        every = (self, *others)
        return replace(combined, exact=all(w.exact for w in every), sources=joined_sources(every))


def joined_sources(parts: Iterable[Weights]) -> tuple[str, ...]:
    """Return the names of the checkpoint's tensors behind all `parts`, each once."""
    return tuple(dict.fromkeys(name for part in parts for name in part.sources))
