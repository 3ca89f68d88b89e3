"""What constants and inputs usually are, where a rewrite cares: by rewrite and by name in its pattern.

A hint takes the grower and the operand before, and returns a constant's values (for a constant) or a shape
(for a variable), or None for "anything". `generic` is that anything.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from msd.graph.ir import Build, Op, Tensor

Shape = tuple[int, ...]
GROUPS = 4
WIDE: Shape = (2, 3, 4, 8)


def select(new: Build, operands: list[Tensor]) -> Tensor:
    """SELECT, whose shape the engine does not follow."""
    result = Tensor(f"select{len(new.ops)}", operands[1].shape, operands[1].dtype)
    new.ops.append(Op("SELECT", operands, [result]))
    return result


def floats(grower: Any, *shape: int) -> Any:
    return grower.rng.normal(0, 1, shape).astype(np.float32)


def generic(grower: Any, kind: str, position: int, x: Tensor | None) -> Any:
    """Return a constant that fits as operand `position` of a `kind` whose first operand is `x`."""
    if kind == "GATHER":
        return floats(grower, *grower.one_of([(7, 4), (7, 4), (5, 3, 2)]))
    if x is None:
        return floats(grower, *grower.one_of([(8,), (3, 8), (3, 1, 8)]))
    make = MAKERS.get(kind)
    return make(grower, position, x.shape) if make else _beside(grower, x.shape)


def _beside(grower: Any, shape: Shape) -> Any:
    """Something that broadcasts: one number, one per channel, one per place, as many as there are."""
    last = shape[-1:]
    ones = (1,) * max(len(shape) - 1, 0)
    return floats(grower, *grower.one_of([(), (1,), last, last, (*ones, *last), shape, (*shape[:-1], 1)]))


def _conv(grower: Any, position: int, shape: Shape) -> Any:
    if position == 1:
        grower.units = grower.one_of([6, 8, 24])
        inputs = shape[3] if not grower.rarely() else shape[3] // 2
        return floats(grower, grower.units, *grower.one_of([(1, 1), (1, 1), (3, 3), (2, 3)]), inputs)
    return floats(grower, grower.units)


def _dense(grower: Any, position: int, shape: Shape) -> Any:
    if position == 1:
        grower.units = grower.one_of([6, 8])
        return floats(grower, grower.units, shape[-1])
    return floats(grower, grower.units)


def _matrix(grower: Any, position: int, shape: Shape) -> Any:
    matrix = (5, shape[-1]) if grower.attrs.get("adj_y") else (shape[-1], 5)
    return floats(grower, *((shape[0], *matrix) if len(shape) == 3 and grower.rarely() else matrix))


def _shape(grower: Any, position: int, shape: Shape) -> Any:
    *front, last = shape if shape else (1,)
    forms = [
        shape,
        (prod(shape),),
        (prod(front), last),
        (1, *shape),
        (*front, 2, last // 2),
        (*front, 1, last),
    ]
    forms += (
        [(shape[0], prod(shape[1:-1]), last), (shape[0], 1, prod(shape[1:-1]), last)]
        if len(shape) > 1
        else []
    )
    fitting = [f for f in forms if len(f) <= 5 and prod(f) == prod(shape)]
    return np.int32(grower.one_of(fitting))


def _order(grower: Any, position: int, shape: Shape) -> Any:
    rank = len(shape)
    orders = [list(range(rank)), list(range(rank))[::-1], [*range(1, rank), 0]]
    orders += [[0, 2, 1, 3], [0, 2, 3, 1]] if rank == 4 else []
    return np.int32(grower.one_of(orders))


def _axes(grower: Any, position: int, shape: Shape) -> Any:
    rank = len(shape)
    return np.int32(grower.one_of([[rank - 1], [-1], [rank - 1], [0], list(range(rank))]))


def _pads(grower: Any, position: int, shape: Shape) -> Any:
    sides = grower.one_of([[1, 1], [0, 1], [2, 1], [0, 0]])
    return np.int32([[0, 0], sides, grower.one_of([[1, 1], sides]), [0, 0]])


def _times(grower: Any, position: int, shape: Shape) -> Any:
    return np.int32([grower.one_of([1, 1, 2, 3]) for _ in shape])


def _begin(grower: Any, x: Tensor) -> Any:
    """The first channels, or some behind."""
    grower.begin = [0] * (len(x.shape) - 1) + [grower.one_of([0, 2])]
    return np.int32(grower.begin)


def _whole(grower: Any, x: Tensor) -> Any:
    grower.begin = [0] * len(x.shape)
    return np.int32(grower.begin)


def _slice(grower: Any, position: int, shape: Shape) -> Any:
    if position == 1:
        grower.begin = [grower.one_of([0, 0, 0, 1]) if n > 1 else 0 for n in shape]
        return np.int32(grower.begin)
    return np.int32(
        [
            grower.one_of([-1, 1]) if b else grower.one_of([n, n, -1])
            for b, n in zip(grower.begin, shape, strict=True)
        ]
    )


MAKERS: dict[str, Callable[[Any, int, Shape], Any]] = {
    "CONV_2D": _conv,
    "FULLY_CONNECTED": _dense,
    "BATCH_MATMUL": _matrix,
    "RESHAPE": _shape,
    "TRANSPOSE": _order,
    "MEAN": _axes,
    "PAD": _pads,
    "TILE": _times,
    "SLICE": _slice,
}


def shape(*sizes: int) -> Callable[..., Shape]:
    return lambda grower, x: sizes


def ints(*values: int) -> Callable[..., Any]:
    return lambda grower, x: np.int32(values)


def _split_channels(grower: Any, x: Tensor) -> Any:
    return np.int32([*x.shape[:3], GROUPS, x.shape[3] // GROUPS])


def _per_group(grower: Any, x: Tensor) -> Any:
    channels = grower.bound["x"].shape[3]
    return 1 + 0.1 * floats(grower, 1, 1, 1, GROUPS, channels // GROUPS)


def _per_channel(grower: Any, x: Tensor | None) -> Any:
    return 1 + 0.1 * floats(grower, grower.bound["x"].shape[-1])


def _small(grower: Any, x: Tensor | None) -> Any:
    return np.float32(1e-3)


def _as_input(grower: Any, x: Tensor) -> Any:
    return np.int32(grower.bound["x"].shape)


def _mask(grower: Any, x: Tensor) -> Any:
    size = x.shape[-2:]
    hidden = np.triu(np.full(size, grower.one_of([-1e9, -np.inf, -1e5])), 1)
    return np.where(np.triu(np.ones(size), 1) > 0, hidden, 0).astype(np.float32)


def _same_pads(grower: Any, x: Tensor) -> Any:
    return np.int32([[0, 0], [1, 1], [1, 1], [0, 0]])


def _three_by_three(grower: Any, x: Tensor) -> Any:
    grower.units = 6
    return floats(grower, 6, 3, 3, x.shape[3])


def _one_by_one(grower: Any, x: Tensor) -> Any:
    grower.units = 12
    size = (1, 1) if len(x.shape) == 4 else ()
    return floats(grower, 12, *size, x.shape[-1])


def _transposed(grower: Any, x: Tensor) -> Shape:
    """The shape of a second factor for the first factor `x`."""
    attrs = grower.attrs
    inner = x.shape[-2] if attrs.get("adj_x") else x.shape[-1]
    return (*x.shape[:-2], 5, inner) if attrs.get("adj_y") else (*x.shape[:-2], inner, 5)


def _one_number(grower: Any, x: Tensor) -> Any:
    return np.full(grower.one_of([(), (1,)]), 0.125, np.float32)


def _rows(grower: Any, x: Tensor) -> Any:
    return np.int32(grower.bound["table"].shape[0])


def _joined_rows(grower: Any, x: Tensor) -> Any:
    return np.int32([x.shape[0], prod(x.shape[1:-1]), x.shape[-1]])


def _one_row(grower: Any, x: Tensor) -> Any:
    return np.int32([x.shape[0], 1, prod(x.shape[1:-1]), x.shape[-1]])


def _last(grower: Any, x: Tensor) -> Any:
    return np.int32([-1])


def _wider(grower: Any, x: Tensor) -> Any:
    return np.int32([*x.shape[:2], 1, *x.shape[2:]])


def _taller(grower: Any, x: Tensor) -> Any:
    n, h, _, w, c = x.shape
    return np.int32([n, h * 2, w, 1, c])


def _upsampled(grower: Any, x: Tensor) -> Any:
    n, h, w, c = grower.bound["x"].shape
    return np.int32([n, h * 2, w * 3, c])


NORMAL: dict[str, Callable[..., Any]] = {"eps": _small, "gamma": _per_channel, "beta": _per_channel}
PRODUCT: dict[str, Callable[..., Any]] = {"b": _transposed, "k": _transposed}
FACTOR: dict[str, Callable[..., Any]] = {"c": _one_number, "k": _transposed}
POINTWISE: dict[str, Callable[..., Any]] = {"w": _one_by_one}

HINTS: dict[str, dict[str, Callable[..., Any]]] = {
    "align_ranks": {"x": shape(2, 3, 4, 8), "lower": shape(4, 8)},
    "clip_mask": {"x": shape(2, 3, 6, 6), "mask": _mask},
    "drop_reshape": {"shape": lambda g, x: np.int32(x.shape)},
    "drop_transpose": {"perm": lambda g, x: np.arange(len(x.shape), dtype=np.int32)},
    "drop_slice": {
        "begin": _whole,
        "size": lambda g, x: np.int32(x.shape),
    },
    "fold_conv_bias": {"c": lambda g, x: floats(g, g.units)},
    "fold_dense_bias": {"c": lambda g, x: floats(g, g.units)},
    "fold_lookup": {"w": lambda g, x: floats(g, 7, 4), "ids": ints(2, 0, 6)},
    "fold_padding": {"pads": _same_pads, "w": _three_by_three},
    "fold_shift": {"w": _one_by_one, "shift": lambda g, x: floats(g, x.shape[-1])},
    "lift_matmul": {"a": shape(2, 6, 8), **PRODUCT},
    "transpose_matmul": {"a": shape(2, 3, 6, 8), **PRODUCT},
    "flag_transposed_matmul": {"a": shape(2, 3, 6, 8), "b": shape(2, 5, 3, 8), "perm": ints(0, 2, 3, 1)},
    "attend_in_turn": {"q": shape(2, 3, 6, 8), "k": _transposed, "v": shape(2, 3, 5, 4)},
    "lower_group_norm": {
        "x": shape(*WIDE),
        "grouping": _split_channels,
        "axes": ints(1, 2, 4),
        "axes2": ints(1, 2, 4),
        "eps": _small,
        "gamma": _per_group,
        "beta": _per_group,
        "ungrouping": _as_input,
    },
    "lower_layer_norm": {"axes": _last, "axes2": _last, **NORMAL},
    "lower_plain_layer_norm": {"axes": _last, "axes2": _last, **NORMAL},
    "raise_rank": {"x": lambda g, x: g.one_of([(8,), (3, 8), (2, 6, 8)]), "y": lambda g, x: x.shape},
    "raise_rank_of_reduction": {"x": lambda g, x: g.one_of([(8,), (3, 8), (2, 6, 8)]), "axes": _last},
    "resize_upsample": {
        "x": shape(*WIDE),
        "a": _wider,
        "down": ints(1, 1, 2, 1, 1),
        "b": _taller,
        "across": ints(1, 1, 1, 3, 1),
        "c": _upsampled,
    },
    "scale_query": {"q": shape(2, 3, 6, 8), **FACTOR},
    "scale_before_reshape": FACTOR,
    "scale_before_transpose": FACTOR,
    "fold_scale_into_dense": FACTOR,
    "fold_scale_into_conv": FACTOR,
    "serialize_conv": {"w": lambda g, x: _three_by_three(g, x) if g.one_of([True] * 8 + [False]) else None},
    "trust_index": {"rows": _rows, "table": lambda g, x: floats(g, 7, 4)},
    "trust_index_v2": {"rows": _rows, "table": lambda g, x: floats(g, 7, 4)},
    "use_fully_connected": {},
    "sink_reshape_past_unary": {"x": shape(*WIDE), "rows": _joined_rows},
    "sink_reshape_past_reduction": {"x": shape(*WIDE), "rows": _joined_rows, "axes": _last},
    "sink_reshape_past_binary": {
        "x": shape(*WIDE),
        "y": shape(*WIDE),
        "flat": shape(2, 12, 8),
        "rows": _joined_rows,
        "axes": _last,
    },
    "sink_reshape_past_conv": {"x": shape(*WIDE), "row": _one_row, **POINTWISE},
    "hoist_reshape_before_conv": {
        "x": shape(2, 6, 2, 4),
        "joined": ints(2, 1, 6, 8),
        "picture": lambda g, x: np.int32([2, 2, 3, x.shape[-1]]),
        **POINTWISE,
    },
    "split_sliced_layer": {
        "last": lambda g, x: np.int32(3 if not g.rarely() else 0),
        "begin": _begin,
        "size": lambda g, x: np.int32([*x.shape[:-1], 3]),
        **POINTWISE,
    },
    "feed_timestep_embedding": {
        "timestep": shape(2),
        "column": ints(2, 1),
        "frequencies": lambda g, x: np.float32([[1.0, 0.1, 0.01]]),
    },
    "merge_projections": {
        "x": shape(1, 1, 6, 8),
        "heads": ints(1, 6, 3, 4),
        **{f"order{i}": lambda g, x: np.int32([0, 2, 1, 3]) for i in (1, 2, 3)},
        **{f"w{i}": _one_by_one for i in (1, 2, 3)},
    },
    "merge_duplicates": {"factor": lambda g, x: np.float32(0.5)},
}
