"""Sparse constants: TensorFlow Lite stores what is not zero, and where it lies.

The format is that of tflite/kernels/internal/utils/sparsity_format_converter.cc, after the tensor algebra
compiler (arXiv 1804.10112): the axes of a tensor, and of blocks inside it, are levels of a tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from msd.files.wording import counted
from msd.graph.ir.weights import Array, Weights


@dataclass(frozen=True, eq=False)
class Level:
    """An axis in storage order: all of its `size` positions, or for a parent p those that are stored.

    They are then `indices[segments[p] : segments[p + 1]]`, and `size` is not used.
    """

    size: int = 0
    segments: Array | None = None
    indices: Array | None = None


@dataclass(frozen=True, eq=False)
class Sparsity:
    """Where the stored values of a constant lie in it.

    `order` names the axis of each level: the tensor's, and the blocks' counted on from its rank.
    `block_map` names the tensor's axis that each axis of the blocks divides; its level has all positions.
    """

    order: tuple[int, ...]
    block_map: tuple[int, ...]
    levels: tuple[Level, ...]

    def dense(self, stored: Weights, shape: tuple[int, ...], dtype: str) -> Weights:
        """Return the constant of `shape` and NumPy's `dtype` whose stored bytes are `stored`, zero elsewhere.

        Loading it raises ValueError where the values are not as many as the places.
        """
        kind = np.dtype(dtype)

        def expand(raw: Array) -> Array:
            places, values = self.places(shape), np.ascontiguousarray(raw).view(kind)
            if len(places) != values.size:
                raise ValueError(f"{values.size} values are stored for {counted(len(places), 'place')}")
            array = np.zeros(math.prod(shape), kind)
            array[places] = values.reshape(-1)
            return array.reshape(shape)

        return stored.map("dense", expand, shape, kind)

    def places(self, shape: tuple[int, ...]) -> Array:
        """Return the place of each stored value in the flattened tensor; raises ValueError if it has none."""
        strides, sizes = self._strides(shape)
        at, parents = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for level, axis in zip(self.levels, self.order, strict=True):
            child, index, owner = _children(level, parents)
            if index.size and not 0 <= index.min() <= index.max() < sizes[axis]:
                raise ValueError(f"a sparse index lies outside the {sizes[axis]} positions of its axis")
            at, parents = at[owner] + index * strides[axis], child
        return at

    def _strides(self, shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """Return how far apart the positions of each axis lie, blocks' axes last, and how many they are."""
        rank = len(shape)
        if sorted(self.order) != list(range(rank + len(self.block_map))) or len(self.levels) != len(
            self.order
        ):
            raise ValueError(f"its sparse levels {list(self.order)} are not those of {list(shape)}")
        dense = [math.prod(shape[axis + 1 :]) for axis in range(rank)]
        strides, sizes = [*dense, *[0] * len(self.block_map)], [*shape, *[0] * len(self.block_map)]
        # The blocks' axes that come last in storage order lie closest together.
        for level, axis in zip(self.levels[::-1], self.order[::-1], strict=True):
            if axis < rank:
                continue
            of = self.block_map[axis - rank]
            if not 0 <= of < rank or level.size < 1 or sizes[of] % level.size:
                raise ValueError(f"blocks of {level.size} do not divide {list(shape)}")
            strides[axis], sizes[axis] = strides[of], level.size
            strides[of], sizes[of] = strides[of] * level.size, sizes[of] // level.size
        return strides, sizes


def _children(level: Level, parents: Array) -> tuple[Array, Array, Array]:
    """Return each child's number on its level, its position on the axis, and the place of its parent."""
    if level.segments is None or level.indices is None:
        owner = np.repeat(np.arange(len(parents)), level.size)
        index = np.tile(np.arange(level.size, dtype=np.int64), len(parents))
        return parents[owner] * level.size + index, index, owner
    segments, indices = level.segments.astype(np.int64), level.indices.astype(np.int64)
    if parents.size and parents.max() + 1 >= len(segments):
        raise ValueError(f"{len(segments)} sparse segments are too few")
    first, counts = segments[parents], segments[parents + 1] - segments[parents]
    if counts.size and (counts.min() < 0 or first.min() < 0 or (first + counts).max() > len(indices)):
        raise ValueError(f"its sparse segments reach beyond {len(indices)} indices")
    owner = np.repeat(np.arange(len(parents)), counts)
    child = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner] + first[owner]
    return child, indices[child], owner
