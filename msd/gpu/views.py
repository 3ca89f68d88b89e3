"""Views: tensors that only rearrange another one are read in place, by strides."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from msd.graph.ir import Op, Tensor
from msd.graph.ir.weights import Array


@dataclass(frozen=True)
class StridedView:
    """A tensor as elements of `base`, which is contiguous: index i lies at offset + sum(i * strides)."""

    base: Tensor
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def transposed(self, order: tuple[int, ...]) -> StridedView:
        """Return the view with its axes in another order."""
        shape, strides = (tuple(values[i] for i in order) for values in (self.shape, self.strides))
        return StridedView(self.base, self.offset, shape, strides)

    def reshaped(self, shape: tuple[int, ...]) -> StridedView | None:
        """Return the view in another shape; None where no strides describe it."""
        dummy = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), self.shape, self.strides)
        try:
            strides = _in_place(dummy, shape).strides
        except (AttributeError, ValueError):
            return None
        return StridedView(self.base, self.offset, shape, strides)

    def sliced(self, axis: int, start: int, size: int, step: int = 1) -> StridedView:
        """Return `size` elements from `start` along an axis, every `step`-th."""
        shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])
        strides = (*self.strides[:axis], step * self.strides[axis], *self.strides[axis + 1 :])
        return StridedView(self.base, self.offset + start * self.strides[axis], shape, strides)

    def without(self, axes: Collection[int]) -> StridedView:
        """Return the view without axes of size one."""
        kept = [axis for axis in range(len(self.shape)) if axis not in axes]
        shape, strides = (tuple(values[axis] for axis in kept) for values in (self.shape, self.strides))
        return StridedView(self.base, self.offset, shape, strides)

    @property
    def contiguous(self) -> bool:
        """Whether its elements follow one another."""
        return self.strides == contiguous_strides(self.shape)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a row-major array, in elements."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides[: len(shape)])) if shape else ()


def _in_place(array: Array, shape: tuple[int, ...]) -> Array:
    """Return the array in another shape without a copy; raises AttributeError or ValueError."""
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        found: Array = np.reshape(array, shape, copy=False)  # type: ignore[call-overload]
        return found
    array.shape = shape  # deprecated in NumPy 2.5; the only way that NumPy 1 has
    return array


def view(tensor: Tensor) -> StridedView:
    """Return a tensor as a view of what RESHAPE, TRANSPOSE, SPLIT and slices have rearranged."""
    maker = tensor.producer
    inner = _through(maker, tensor) if maker is not None else None
    return inner or StridedView(tensor, 0, tensor.shape, contiguous_strides(tensor.shape))


def same_memory(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are the same array, perhaps in two shapes."""
    return _reshaped_from(a) is _reshaped_from(b)


def _reshaped_from(tensor: Tensor) -> Tensor:
    while tensor.producer is not None and tensor.producer.kind == "RESHAPE":
        tensor = tensor.producer.operands[0]
    return tensor


def _through(maker: Op, tensor: Tensor) -> StridedView | None:
    if maker.kind == "RESHAPE":
        return view(maker.operands[0]).reshaped(tensor.shape)
    if maker.kind == "TRANSPOSE":
        order = tuple(int(i) for i in maker.operands[1].values())
        return view(maker.operands[0]).transposed(order)
    if maker.kind == "SPLIT":
        axis = int(maker.operands[0].values().reshape(-1)[0]) % len(tensor.shape)
        start = maker.outputs.index(tensor) * tensor.shape[axis]
        return view(maker.operands[1]).sliced(axis, start, tensor.shape[axis])
    if maker.kind == "SLICE":
        source = view(maker.operands[0])
        for axis, start in enumerate(maker.operands[1].values()):
            source = source.sliced(axis, int(start), tensor.shape[axis])
        return source
    if maker.kind == "STRIDED_SLICE" and not makes_axes(maker):
        return _strided_slice(maker)
    return None


def makes_axes(op: Op) -> bool:
    """Whether a STRIDED_SLICE has an ellipsis or new axes, which views do not."""
    return bool(op.attrs["ellipsis_mask"] or op.attrs["new_axis_mask"])


def _strided_slice(op: Op) -> StridedView:
    """Return what STRIDED_SLICE takes: NumPy's slices, where masks leave out ends and single out indices."""
    attrs, (x, *bounds) = op.attrs, op.operands
    seen, single = view(x), list[int]()
    for axis, (begin, end, step) in enumerate(zip(*(map(int, t.values()) for t in bounds), strict=True)):
        bit = 1 << axis
        if attrs["shrink_axis_mask"] & bit:
            seen = seen.sliced(axis, begin % x.shape[axis], 1)
            single.append(axis)
            continue
        first = None if attrs["begin_mask"] & bit else begin
        last = None if attrs["end_mask"] & bit else end + (begin if attrs["offset"] else 0)
        taken = range(*slice(first, last, step).indices(x.shape[axis]))
        seen = seen.sliced(axis, taken.start, len(taken), step)
    return seen.without(single)
