"""Lazy weights: a shape, a dtype, and a function that reads the bytes when they are needed.

Every transformation of a weight (transpose, slice, scale …) extends its description. What only rearranges is
a view of what is read; what changes each element by itself waits until a writer takes the rows, some at a
time, so that they stay in the cache. The bytes move once, when a file is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from msd.graph.ir.casts import cast, is_float
from msd.graph.ir.row_reader import RowReader

Array = npt.NDArray[Any]

BLOCK = 1 << 18
"""How many elements change at a time: as float32 they take a megabyte.

With fewer, threads would wait for each other: each call of NumPy takes Python's lock again.
"""

BLOCKS = 8
"""How many blocks are read at a time."""

ROWS = 64
"""Blocks of multiples of these rows make the same product with a vector, to the last bit, as all at once:
OpenBLAS sums four rows at a time in another order than one.
"""

SMALL = 1 << 16
"""The largest number of elements whose values a rewrite may read (`Weights.load_small`)."""


@dataclass(frozen=True, eq=False)
class Weights:
    """An array of exactly `shape` and `dtype` that is loaded on demand.

    `read()` returns an array of `shape`, new or read-only; for a tensor of a checkpoint it has the dtype of
    the file. `changes`, one after another, turn its elements into the weights. `history` describes for people
    where the weights come from and how they are transformed.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    read: Callable[[], Array]
    history: str
    exact: bool = False
    """Whether the numbers are not learnt but set by this program, which stores them without loss."""
    sources: tuple[str, ...] = ()
    """The names of the checkpoint's tensors that these are computed from."""
    changes: tuple[Callable[[Array], Array], ...] = ()
    """Functions of an array of any shape that treat each element by itself."""
    parts: tuple[Weights, ...] = ()
    """The weights that these are, one after the other along axis 0, if they are that and no more."""
    rows: RowReader | None = None
    """How `read()` is read a few rows at a time, where its file allows that."""

    @staticmethod
    def of(values: npt.ArrayLike, history: str = "constant") -> Weights:
        """Return weights that hold `values` in memory."""
        array = np.asarray(values).view()
        array.flags.writeable = False
        return Weights(shape=array.shape, dtype=array.dtype, read=lambda: array, history=history, exact=True)

    @staticmethod
    def stored(
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        read: Callable[[], Array],
        history: str,
        read_rows: Callable[[int, int], Array] | None = None,
    ) -> Weights:
        """Return the weights of a file of a checkpoint, those of any floating-point type as float32.

        `read_rows` returns the rows of `read()`, those of axis 0, from one index up to another.
        """
        rows = RowReader(read_rows, tuple(range(len(shape)))) if read_rows and shape else None
        weights = Weights(shape=shape, dtype=dtype, read=read, history=history, rows=rows)
        return weights.astype(np.float32) if is_float(dtype) else weights

    @staticmethod
    def joined(parts: Sequence[Weights]) -> Weights:
        """Return weights of the same dtype and further axes one after the other along axis 0."""
        return Weights(
            shape=(sum(p.shape[0] for p in parts), *parts[0].shape[1:]),
            dtype=parts[0].dtype,
            read=lambda: np.concatenate([p.load() for p in parts]),
            history="join(" + ", ".join(p.history for p in parts) + ")",
            exact=all(p.exact for p in parts),
            sources=joined_sources(parts),
            parts=tuple(parts),
        )

    def as_exact(self) -> Weights:
        """Return the same weights, marked to be stored without loss."""
        return replace(self, exact=True)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def most_read(self) -> int:
        """The most elements that `blocks` reads at a time."""
        if self.parts:
            return max(part.most_read for part in self.parts)
        if self.rows is None or not self.rows.are_first:
            return self.size
        return min(self.size, BLOCKS * max(BLOCK, self.size // max(1, self.shape[0])))

    def load(self) -> Array:
        """Return the array, new or read-only."""
        if not self.changes and not self.parts:
            return self.read()
        array = np.empty(self.shape or (1,), self.dtype)
        for start, block in self.blocks():
            array[start : start + len(block)] = block
        return array.reshape(self.shape)

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """Yield consecutive rows, those of axis 0, in blocks of `BLOCK` elements, or of one row.

        Each comes with the index of its first row. Blocks of many rows begin at multiples of `ROWS`.
        """
        if self.parts:
            yield from self._blocks_of_parts()
            return
        rows = max(1, BLOCK * (self.shape or (1,))[0] // max(1, self.size))
        rows -= rows % min(ROWS, 1 << rows.bit_length() - 1)
        for first, array in self._pieces(rows * BLOCKS):
            for start in range(0, len(array), rows):
                yield first + start, self._changed(array[start : start + rows])

    def _pieces(self, rows: int) -> Iterator[tuple[int, Array]]:
        """Yield what is read: so many rows at a time, if they can be, or everything."""
        if self.rows is None or not self.rows.are_first:
            yield 0, np.atleast_1d(self.read())
            return
        for start in range(0, self.shape[0], rows):
            yield start, self.rows.take(start, min(start + rows, self.shape[0]))

    def _blocks_of_parts(self) -> Iterator[tuple[int, Array]]:
        first = 0
        for part in self.parts:
            for start, block in part.blocks():
                yield first + start, block
            first += part.shape[0]

    def _changed(self, array: Array) -> Array:
        for change in self.changes:
            array = change(array)
        return array

    def load_small(self) -> Array:
        """Return the array; raises ValueError for more than `SMALL` elements, which only a writer loads."""
        if self.size > SMALL:
            raise ValueError(f"{self.history} has {self.size} elements: too many to read before writing")
        return self.load()

    def map(
        self,
        what: str,
        change: Callable[[Array], Array],
        shape: tuple[int, ...] | None = None,
        dtype: npt.DTypeLike = None,
    ) -> Weights:
        """Return weights that apply `change` to the whole array; its result has `shape` and `dtype`.

        `what` names the change in the history.
        """
        new_shape = self.shape if shape is None else tuple(shape)
        new_dtype = self.dtype if dtype is None else np.dtype(dtype)

        def read() -> Array:
            array = change(self.load())
            if array.shape != new_shape or array.dtype != new_dtype:
                raise AssertionError(
                    f"{what} returned {array.dtype}{array.shape}, not {new_dtype}{new_shape}"
                )
            return array

        history = f"{self.history} | {what}"
        return replace(
            self,
            shape=new_shape,
            dtype=new_dtype,
            read=read,
            history=history,
            changes=(),
            parts=(),
            rows=None,
        )

    def map_each(self, what: str, change: Callable[[Array], Array], dtype: npt.DTypeLike = None) -> Weights:
        """Return weights that apply `change` to arrays of any shape, element by element.

        Its result has `dtype`; `what` names the change in the history.
        """
        new_dtype = self.dtype if dtype is None else np.dtype(dtype)

        def checked(array: Array) -> Array:
            changed = change(array)
            if changed.shape != array.shape or changed.dtype != new_dtype:
                raise AssertionError(
                    f"{what} returned {changed.dtype}{changed.shape}, not {new_dtype}{array.shape}"
                )
            return changed

        history = f"{self.history} | {what}"
        return replace(self, dtype=new_dtype, history=history, changes=(*self.changes, checked), parts=())

    def transpose(self, perm: tuple[int, ...]) -> Weights:
        """Return the weights with axes in the order `perm`."""
        if sorted(perm) != list(range(len(self.shape))):
            raise ValueError(f"{perm} does not order the axes of {self.shape}")
        shape = tuple(self.shape[i] for i in perm)
        rows = self.rows and self.rows.transposed(perm)
        return self.rearrange(f"transpose{list(perm)}", lambda a: np.transpose(a, perm), shape, rows)

    def reshape(self, shape: tuple[int, ...]) -> Weights:
        """Return the weights in another shape, in the same row-major order."""
        if math.prod(shape) != self.size:
            raise ValueError(f"cannot reshape {self.shape} to {shape}")
        rows = self.rows and self.rows.reshaped(self.shape[0], tuple(shape))
        return self.rearrange(f"reshape{list(shape)}", lambda a: a.reshape(shape), shape, rows)

    def slice(self, axis: int, start: int, stop: int) -> Weights:
        """Return the elements `start:stop` along `axis`, which is not negative."""
        if axis < 0 or not 0 <= start < stop <= self.shape[axis]:
            raise ValueError(f"cannot take {start}:{stop} of {self.shape} on axis {axis}")
        cut = (*[slice(None)] * axis, slice(start, stop))
        shape = (*self.shape[:axis], stop - start, *self.shape[axis + 1 :])
        rows = self.rows and self.rows.cut(axis, start, stop)
        return self.rearrange(f"[{start}:{stop}] on axis {axis}", lambda a: a[cut], shape, rows)

    def rearrange(
        self,
        what: str,
        view: Callable[[Array], Array],
        shape: tuple[int, ...],
        rows: RowReader | None = None,
    ) -> Weights:
        """Return weights whose elements `view` takes from these, unchanged, in `shape`.

        `what` names it in the history; `rows` reads the same a few rows at a time.
        """

        def read() -> Array:
            array = view(self.read())
            if array.shape != shape:
                raise AssertionError(f"{what} returned {array.shape}, not {shape}")
            return array

        history = f"{self.history} | {what}"
        return replace(self, shape=shape, read=read, history=history, parts=(), rows=rows)

    def astype(self, dtype: npt.DTypeLike) -> Weights:
        """Return the weights cast to `dtype`."""
        target = np.dtype(dtype)
        if target == self.dtype:
            return self
        return self.map_each(target.name, lambda a: cast(a, target), target)

    def combine(self, what: str, change: Callable[..., Array], *others: Weights) -> Weights:
        """Return `change(self, *others)`, of this dtype and of the shape that NumPy's broadcasting gives."""
        shape = np.broadcast_shapes(self.shape, *(o.shape for o in others))
        combined = self.map(what, lambda a: change(a, *(o.load() for o in others)), shape)
        every = (self, *others)
        return replace(combined, exact=all(w.exact for w in every), sources=joined_sources(every))


def joined_sources(parts: Iterable[Weights]) -> tuple[str, ...]:
    """Return the names of the checkpoint's tensors behind all `parts`, each once."""
    return tuple(dict.fromkeys(name for part in parts for name in part.sources))
