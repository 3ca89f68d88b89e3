"""Cases drawn at random: none was chosen because a rule is about it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

from msd.graph.ir import Tensor
from tests.oracle.case import Case, given, ints, model, numbers, op, scalar

COUNT, SEED = 300, 20
F32 = "FLOAT32"


def cases() -> Iterator[Case]:
    """Yield every case of this file."""
    draw = random.Random(SEED)
    for number in range(COUNT):
        yield draw.choice(MAKERS)(draw, number)


def _shape(draw: random.Random, low: int = 1, high: int = 4) -> tuple[int, ...]:
    return tuple(draw.choice((1, 2, 3, 4, 6, 8)) for _ in range(draw.randint(low, high)))


def _tensor(draw: random.Random, shape: tuple[int, ...]) -> Tensor:
    return numbers(*shape) if draw.random() < 0.4 else given(*shape)


def _binary(draw: random.Random, number: int) -> Case:
    kind = draw.choice(("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"))
    long = _shape(draw)
    short = tuple(n if draw.random() < 0.6 else 1 for n in long[draw.randint(0, len(long)) :])
    pair = [_tensor(draw, long), _tensor(draw, short)]
    if draw.random() < 0.5:
        pair.reverse()
    shape = tuple(np.broadcast_shapes(long, short))
    text = " with ".join(f"{'constant ' * (t.data is not None)}{list(t.shape)}" for t in pair)
    return Case(f"{kind} random {number}: {text}", model(op(kind, pair, (shape, F32))), positive=True)


def _matmul(draw: random.Random, number: int) -> Case:
    lead = _shape(draw, 0, 2)
    other = lead if draw.random() < 0.6 else tuple(n if draw.random() < 0.5 else 1 for n in lead)
    flags = {name: draw.random() < 0.4 for name in ("adj_x", "adj_y")}
    m, k, n = (draw.choice((1, 3, 5, 8)) for _ in range(3))
    x = given(*lead, *((k, m) if flags["adj_x"] else (m, k)))
    y = _tensor(draw, (*other, *((n, k) if flags["adj_y"] else (k, n))))
    result = (*np.broadcast_shapes(lead, other), m, n)
    name = f"{list(x.shape)} by {'constant ' * (y.data is not None)}{list(y.shape)} {flags}"
    made = op("BATCH_MATMUL", [x, y], (result, F32), **flags)
    return Case(f"BATCH_MATMUL random {number}: {name}", model(made))


def _conv(draw: random.Random, number: int) -> Case:
    groups, each, out = (
        draw.choice((1, 1, 1, 2, 3)),
        draw.choice((1, 3, 4, 8, 12)),
        draw.choice((1, 4, 5, 12)),
    )
    size, stride = draw.choice((1, 2, 3, 5)), draw.choice((1, 2, 3))
    padding = draw.choice(("SAME", "VALID"))
    shape = (draw.choice((1, 2)), draw.randint(5, 12), draw.randint(5, 12), groups * each)
    places = [(n - (size - 1) * (padding == "VALID") + stride - 1) // stride for n in shape[1:3]]
    kind = draw.choice((F32, "FLOAT16", "INT8", "INT8"))
    scales = draw.choice((1, groups * out)) if kind == "INT8" else 0
    weight = numbers(groups * out, size, size, each, dtype=kind, scales=scales)
    inputs = [given(*shape), weight, numbers(groups * out)]
    attrs = {"stride_w": stride, "stride_h": stride, "padding": padding}
    made = op("CONV_2D", inputs, ((shape[0], *places, groups * out), F32), **attrs)
    name = f"{list(shape)} with {kind} {list(weight.shape)}, stride {stride}, {padding}"
    return Case(f"CONV_2D random {number}: {name}", model(made))


def _transpose_conv(draw: random.Random, number: int) -> Case:
    size, stride = draw.randint(1, 6), draw.randint(1, 4)
    shape = (1, draw.randint(2, 9), draw.randint(2, 9), draw.choice((3, 4, 8)))
    cut = draw.randint(0, stride - 1)
    result = (1, shape[1] * stride - cut, shape[2] * stride - cut, draw.choice((4, 5)))
    inputs = [ints(*result), numbers(result[3], size, size, shape[3]), given(*shape)]
    attrs = {"stride_w": stride, "stride_h": stride, "padding": "SAME"}
    name = f"{list(shape)} to {list(result)}, {size}×{size}, stride {stride}"
    made = op("TRANSPOSE_CONV", inputs, (result, F32), **attrs)
    return Case(f"TRANSPOSE_CONV random {number}: {name}", model(made))


def _dense(draw: random.Random, number: int) -> Case:
    shape = (*_shape(draw, 0, 3), draw.choice((3, 4, 8, 16)))
    out = draw.choice((1, 4, 5, 12))
    int8 = draw.random() < 0.5
    weight = numbers(out, shape[-1], dtype="INT8", scales=out) if int8 else numbers(out, shape[-1])
    flat = draw.random() < 0.4
    result = (int(np.prod(shape[:-1])), out) if flat else (*shape[:-1], out)
    inputs = [given(*shape), weight, *([numbers(out)] if draw.random() < 0.5 else [])]
    made = op("FULLY_CONNECTED", inputs, (result, F32), keep_num_dims=not flat)
    name = f"{list(shape)} to {list(result)}{', INT8' * int8}"
    return Case(f"FULLY_CONNECTED random {number}: {name}", model(made))


def _reduce(draw: random.Random, number: int) -> Case:
    kind, shape = draw.choice(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")), _shape(draw)
    axes = draw.sample(range(len(shape)), draw.randint(1, len(shape)))
    keep = draw.random() < 0.5
    result = tuple(1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes)
    made = op(kind, [given(*shape), ints(*axes)], (result, F32), keep_dims=keep)
    return Case(f"{kind} random {number}: {list(shape)} over {axes}{', keep' * keep}", model(made))


def _move(draw: random.Random, number: int) -> Case:
    shape = _shape(draw, 2)
    kind = draw.choice(
        ("TRANSPOSE", "SLICE", "CONCATENATION", "TILE", "SPLIT_V", "GATHER", "PACK", "SOFTMAX")
    )
    return Case(f"{kind} random {number}: {list(shape)}", model(_moved(kind, shape, draw)))


def _moved(kind: str, shape: tuple[int, ...], draw: random.Random) -> object:
    axis, rank, x = draw.randrange(len(shape)), len(shape), given(*shape)

    def along(size: int) -> tuple[tuple[int, ...], str]:
        return (*shape[:axis], size, *shape[axis + 1 :]), F32

    if kind == "TRANSPOSE":
        perm = draw.sample(range(rank), rank)
        return op(kind, [x, ints(*perm)], (tuple(shape[i] for i in perm), F32))
    if kind == "SLICE":
        begin = [draw.randrange(n) for n in shape]
        size = [n - b for n, b in zip(shape, begin, strict=True)]
        return op(kind, [x, ints(*begin), ints(*size)], (tuple(size), F32))
    if kind == "CONCATENATION":
        return op(kind, [x, _tensor(draw, shape)], along(2 * shape[axis]), axis=axis)
    if kind == "TILE":
        return op(kind, [x, ints(*(3 if i == axis else 1 for i in range(rank)))], along(3 * shape[axis]))
    if kind == "SPLIT_V":
        inputs = [x, ints(1, max(0, shape[axis] - 1)), scalar(axis, "INT32")]
        return (
            op(kind, inputs, along(1), along(shape[axis] - 1), num_splits=2) if shape[axis] > 1 else _soft(x)
        )
    if kind == "GATHER":
        return op(kind, [x, ints(*(draw.randrange(shape[axis]) for _ in range(3)))], along(3), axis=axis)
    if kind == "PACK":
        result = ((*shape[:axis], 2, *shape[axis:]), F32)
        return op(kind, [x, _tensor(draw, shape)], result, values_count=2, axis=axis)
    return _soft(x)


def _soft(x: Tensor) -> object:
    return op("SOFTMAX", [x], (x.shape, F32), beta=1.0)


MAKERS: tuple[Callable[[random.Random, int], Case], ...] = (
    *(_binary, _binary, _binary, _matmul, _matmul, _conv, _conv, _transpose_conv, _dense, _dense),
    *(_reduce, _move, _move, _move),
)
