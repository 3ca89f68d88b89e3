"""Cases of operations that reduce an axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msd.graph.ir import Tensor
from tests.oracle.case import Case, given, ints, model, numbers, op, scalar

SHAPE = (2, 3, 5, 8)
KINDS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
AXES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((8,), (0,)),
    ((5, 8), (0,)),
    ((5, 8), (1,)),
    ((3, 5, 8), (0,)),
    ((3, 5, 8), (1,)),
    ((3, 5, 8), (2,)),
    ((3, 5, 8), (1, 2)),
    ((2, 3, 5, 8), (0,)),
    ((2, 3, 5, 8), (1,)),
    ((2, 3, 5, 8), (3,)),
    ((2, 3, 5, 8), (1, 2)),
    ((2, 3, 5, 8), (1, 2, 3)),
    ((2, 3, 5, 8), (0, 1, 2, 3)),
    ((2, 3, 5, 8), (-1,)),
    ((2, 3, 5, 8), ()),
    ((1, 2, 3, 5, 8), (4,)),
    ((1, 2, 3, 5, 8), (1,)),
]


def cases() -> Iterator[Case]:
    """Yield every case of this file."""
    for kind in KINDS:
        for shape, axes in AXES:
            for keep in (True, False):
                yield _reduce(kind, shape, axes, keep)
        yield from _forms(kind)
    for kind in ("REDUCE_ANY", "REDUCE_ALL"):
        for shape, axes in AXES:
            yield _reduce(kind, shape, axes, True, "BOOL")
    yield from _cumsum()
    yield from _arg_max()
    yield from _top_k()


def _reduce(
    kind: str,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    keep: bool,
    dtype: str = "FLOAT32",
    version: int = 1,
) -> Case:
    gone = {axis % len(shape) for axis in axes}
    every = enumerate(shape)
    result = tuple(1 if i in gone else n for i, n in every if keep or i not in gone)
    inputs: list[Tensor] = [given(*shape, dtype=dtype), ints(*axes)]
    made = op(kind, inputs, (result, dtype), version=version, keep_dims=keep)
    name = f"{kind} {list(shape)} over {list(axes)}{', keep_dims' * keep}"
    return Case(name if (dtype, version) == ("FLOAT32", 1) else f"{name} {dtype} v{version}", model(made))


def _forms(kind: str) -> Iterator[Case]:
    newest = {"MEAN": 3, "REDUCE_MAX": 3, "REDUCE_MIN": 3}.get(kind, 2)
    for version in range(2, newest + 1):
        yield _reduce(kind, SHAPE, (3,), True, version=version)
    for dtype in ("INT32", "INT64", "INT16"):
        yield _reduce(kind, SHAPE, (3,), True, dtype)
    result = ((2, 3, 5, 1), "FLOAT32")
    made = op(kind, [given(*SHAPE), scalar(3, "INT32")], result, keep_dims=True)
    yield Case(f"{kind} scalar axis", model(made))
    made = op(kind, [given(*SHAPE), given(1, dtype="INT32")], result, keep_dims=True)
    yield Case(f"{kind} runtime axis", model(made))
    made = op(kind, [numbers(*SHAPE), ints(3)], result, keep_dims=True)
    yield Case(f"{kind} of a constant", model(made))


def _cumsum() -> Iterator[Case]:
    for shape in [(8,), (5, 8), (3, 5, 8), SHAPE, (1, *SHAPE)]:
        for axis in (0, len(shape) - 1):
            made = op("CUMSUM", [given(*shape), scalar(axis, "INT32")], (shape, "FLOAT32"))
            yield Case(f"CUMSUM rank {len(shape)} axis {axis}", model(made))
    for shape in [(1, 8), (1, 5, 8), (1, 3, 5, 8)]:
        made = op("CUMSUM", [given(*shape), scalar(0, "INT32")], (shape, "FLOAT32"))
        yield Case(f"CUMSUM of one, rank {len(shape)}", model(made))
    for attrs in ({"exclusive": True}, {"reverse": True}):
        made = op("CUMSUM", [given(5, 8), scalar(1, "INT32")], ((5, 8), "FLOAT32"), **attrs)
        yield Case(f"CUMSUM {next(iter(attrs))}", model(made))
    made = op("CUMSUM", [given(5, 8, dtype="INT32"), scalar(1, "INT32")], ((5, 8), "INT32"))
    yield Case("CUMSUM of INT32", model(made))
    made = op("CUMSUM", [given(5, 8), given(dtype="INT32")], ((5, 8), "FLOAT32"))
    yield Case("CUMSUM runtime axis", model(made))


def _arg_max() -> Iterator[Case]:
    for shape in [(8,), (5, 8), (3, 5, 8), SHAPE, (1, *SHAPE)]:
        for axis in range(len(shape)):
            result = (*shape[:axis], *shape[axis + 1 :])
            for out, number in (("INT32", 2), ("INT64", 4)):
                made = op(
                    "ARG_MAX", [given(*shape), scalar(axis, "INT32")], (result, out), output_type=number
                )
                yield Case(f"ARG_MAX rank {len(shape)} axis {axis} to {out}", model(made))
    for shape in [(40, 1), (40, 2), (1, 20, 3), (2, 10, 5, 6), (6,)]:
        made = op("ARG_MAX", [given(*shape), ints(len(shape) - 1)], (shape[:-1], "INT32"), output_type=2)
        yield Case(f"ARG_MAX of channels of {list(shape)}", model(made))
    made = op("ARG_MAX", [given(2, 3, 5, 7), ints(2)], ((2, 3, 7), "INT32"), output_type=2)
    yield Case("ARG_MAX beside 7 channels", model(made))
    made = op("ARG_MAX", [given(5, 8), scalar(-1, "INT32")], ((5,), "INT32"), output_type=2)
    yield Case("ARG_MAX negative axis", model(made))
    made = op("ARG_MAX", [numbers(5, 8), scalar(1, "INT32")], ((5,), "INT32"), output_type=2)
    yield Case("ARG_MAX of a constant", model(made))
    made = op("ARG_MAX", [given(5, 8, dtype="INT32"), scalar(1, "INT32")], ((5,), "INT32"), output_type=2)
    yield Case("ARG_MAX of INT32", model(made))


def _top_k() -> Iterator[Case]:
    def of(name: str, shape: Any, k: Tensor, count: int, version: int = 1) -> Case:
        result = (*shape[:-1], count)
        made = op("TOPK_V2", [given(*shape), k], (result, "FLOAT32"), (result, "INT32"), version=version)
        return Case(f"TOPK_V2 {name}", model(made))

    for shape in [(8,), (5, 8), (3, 5, 8), SHAPE, (1, *SHAPE)]:
        yield of(f"rank {len(shape)}", shape, scalar(3, "INT32"), 3)
    yield of("one", (5, 8), scalar(1, "INT32"), 1)
    yield of("version 2", (5, 8), scalar(3, "INT32"), 3, 2)
    yield of("k of rank 1", (5, 8), ints(3), 3)
    yield of("runtime k", (5, 8), given(dtype="INT32"), 3)
