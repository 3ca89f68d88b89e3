"""Sparse constants for tests: any array in any of TensorFlow Lite's sparse layouts, and DENSIFY of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from msd.graph.ir import Build, Op, Quant, Tensor
from msd.graph.ir.sparsity import Level, Sparsity
from msd.graph.ir.weights import Array, Weights

TFLITE = {"float32": "FLOAT32", "float16": "FLOAT16", "int8": "INT8"}


def sparse(
    values: Array,
    compressed: Collection[int] = (),
    blocks: Sequence[tuple[int, int]] = (),
    order: Sequence[int] = (),
    quant: Quant | None = None,
) -> Tensor:
    """Return a constant that stores what of `values` is not zero.

    `blocks` are pairs of an axis and the size of blocks along it. `order` names the axis of each level, the
    blocks' counted on from the rank; the levels numbered in `compressed`, by default the tensor's last axis,
    leave out positions without anything.
    """
    rank = values.ndim
    sizes, parts = list(values.shape), list[int]()
    for axis, block in blocks:
        sizes[axis] //= block
    for axis in range(rank):
        parts += [sizes[axis], *(block for of, block in blocks if of == axis)]
    axes = [[axis, *(rank + n for n, (of, _) in enumerate(blocks) if of == axis)] for axis in range(rank)]
    flat = [one for group in axes for one in group]
    levels_order = list(order) or list(range(rank + len(blocks)))
    tree = values.reshape(parts).transpose([flat.index(one) for one in levels_order])
    squeezed = list(compressed) or [levels_order.index(rank - 1)]
    places: list[tuple[int, ...]] = [()]
    levels = list[Level]()
    for number, size in enumerate(tree.shape):
        kept = [[i for i in range(size) if number not in squeezed or tree[(*p, i)].any()] for p in places]
        places = [(*p, i) for p, each in zip(places, kept, strict=True) for i in each]
        if number in squeezed:
            ends = np.cumsum([0, *map(len, kept)]).astype(np.uint16)
            levels.append(Level(0, ends, np.array([p[-1] for p in places], np.uint8)))
        else:
            levels.append(Level(size))
    stored = np.array([tree[p] for p in places], values.dtype)
    tensor = Tensor(
        "sparse", values.shape, TFLITE[values.dtype.name], Weights.of(stored.view(np.uint8)), quant
    )
    tensor.sparsity = Sparsity(tuple(levels_order), tuple(axis for axis, _ in blocks), tuple(levels))
    return tensor


def densify(new: Build, tensor: Tensor) -> Tensor:
    """Return DENSIFY of a sparse constant."""
    result = Tensor(f"t{len(new.ops)}", tensor.shape, tensor.dtype, quant=tensor.quant)
    new.ops.append(Op("DENSIFY", [tensor], [result]))
    return result


def mostly_zero(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    """Return an array of which a fifth is not zero."""
    generator = np.random.default_rng(seed)
    values = generator.integers(-99, 99, shape) if dtype == "int8" else generator.normal(0, 2, shape)
    return (values * (generator.random(shape) < 0.2)).astype(dtype)
