"""Cases of operations that move numbers: shapes, slices, padding, resizing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msd.graph.ir import Tensor
from tests.oracle.case import Case, given, ints, model, numbers, op, scalar

SHAPE = (2, 3, 5, 8)
RANKS: list[tuple[int, ...]] = [(), (8,), (5, 8), (3, 5, 8), SHAPE, (1, 2, 3, 5, 8)]
DTYPES = ("FLOAT16", "INT32", "INT64", "INT16", "INT8", "UINT8", "BOOL")


def cases() -> Iterator[Case]:
    """Yield every case of this file."""
    yield from _reshape()
    yield from _transpose()
    yield from _slice()
    yield from _strided_slice()
    yield from _split()
    yield from _concatenation()
    yield from _pack()
    yield from _unpack()
    yield from _pad()
    yield from _tile()
    yield from _reverse()
    yield from _resize()
    yield from _blocks()


def one(name: str, inputs: Sequence[Tensor], *outputs: Any, version: int = 1, **attrs: Any) -> Case:
    made = op(name.partition(" ")[0], inputs, *outputs, version=version, **attrs)
    return Case(name, model(made))


def _reshape() -> Iterator[Case]:
    for shape in RANKS[1:]:
        size = 1
        for n in shape:
            size *= n
        made = ints(size // 2, 2)
        yield one(f"RESHAPE rank {len(shape)} to 2", [given(*shape), made], ((size // 2, 2), "FLOAT32"))
        runtime = [given(*shape), given(2, dtype="INT32")]
        yield one(f"RESHAPE rank {len(shape)} at run time", runtime, ((size // 2, 2), "FLOAT32"))
        yield one(f"RESHAPE rank 2 to {len(shape)}", [given(size // 2, 2), ints(*shape)], (shape, "FLOAT32"))
    yield one("RESHAPE to a scalar", [given(1), Tensor("n", (0,), "INT32", ints().data)], ((), "FLOAT32"))
    yield one("RESHAPE by attribute", [given(5, 8)], ((8, 5), "FLOAT32"), new_shape=(8, 5))
    yield one("RESHAPE of a constant", [numbers(5, 8), ints(8, 5)], ((8, 5), "FLOAT32"))
    for dtype in DTYPES:
        yield one(f"RESHAPE of {dtype}", [given(5, 8, dtype=dtype), ints(8, 5)], ((8, 5), dtype))


def _transpose() -> Iterator[Case]:
    perms: dict[int, list[tuple[int, ...]]] = {
        1: [(0,)],
        2: [(1, 0)],
        3: [(0, 2, 1), (2, 0, 1), (1, 0, 2)],
        4: [(0, 2, 1, 3), (0, 3, 1, 2), (3, 2, 1, 0), (1, 0, 2, 3)],
        5: [(0, 1, 2, 4, 3)],
    }
    for rank, every in perms.items():
        shape = RANKS[rank]
        for perm in every:
            result = tuple(shape[i] for i in perm)
            yield one(f"TRANSPOSE {list(perm)}", [given(*shape), ints(*perm)], (result, "FLOAT32"))
    for version in range(2, 10):
        two = [given(*SHAPE), ints(0, 2, 1, 3)]
        yield one(f"TRANSPOSE version {version}", two, ((2, 5, 3, 8), "FLOAT32"), version=version)
    yield one("TRANSPOSE of a constant", [numbers(5, 8), ints(1, 0)], ((8, 5), "FLOAT32"))
    for dtype in DTYPES:
        yield one(f"TRANSPOSE of {dtype}", [given(5, 8, dtype=dtype), ints(1, 0)], ((8, 5), dtype))


def _slice() -> Iterator[Case]:
    for shape in RANKS[1:]:
        begin, size = [0] * (len(shape) - 1) + [2], [*shape[:-1], 4]
        result = (tuple(size), "FLOAT32")
        yield one(f"SLICE rank {len(shape)}", [given(*shape), ints(*begin), ints(*size)], result)
        rest = [given(*shape), ints(*begin), ints(*shape[:-1], -1)]
        yield one(f"SLICE rank {len(shape)} to the end", rest, ((*shape[:-1], 6), "FLOAT32"))
    inner = [given(*SHAPE), ints(1, 1, 2, 3), ints(1, 2, 2, 4)]
    yield one("SLICE every axis", inner, ((1, 2, 2, 4), "FLOAT32"))
    for version in range(2, 9):
        yield one(f"SLICE version {version}", inner, ((1, 2, 2, 4), "FLOAT32"), version=version)
        inner = [given(*SHAPE), ints(1, 1, 2, 3), ints(1, 2, 2, 4)]
    yield one("SLICE of a constant", [numbers(5, 8), ints(0, 2), ints(5, 4)], ((5, 4), "FLOAT32"))
    runtime = [given(5, 8), given(2, dtype="INT32"), ints(5, 4)]
    yield one("SLICE from a runtime place", runtime, ((5, 4), "FLOAT32"))
    long = [given(5, 8), ints(0, 2, dtype="INT64"), ints(5, 4, dtype="INT64")]
    yield one("SLICE by INT64", long, ((5, 4), "FLOAT32"))
    for dtype in DTYPES:
        yield one(f"SLICE of {dtype}", [given(5, 8, dtype=dtype), ints(0, 2), ints(5, 4)], ((5, 4), dtype))


def _strided_slice() -> Iterator[Case]:
    def of(name: str, shape: Any, begin: Any, end: Any, stride: Any, result: Any, **a: Any) -> Case:
        version = a.pop("version", 1)
        dtype = a.pop("dtype", "FLOAT32")
        inputs = [given(*shape, dtype=dtype), ints(*begin), ints(*end), ints(*stride)]
        return one(f"STRIDED_SLICE {name}", inputs, (result, dtype), version=version, **a)

    for shape in RANKS[1:]:
        rank = len(shape)
        ones, zero = [1] * rank, [0] * rank
        yield of(f"rank {rank}", shape, zero, [*shape[:-1], 4], ones, (*shape[:-1], 4))
        yield of(f"rank {rank} by 2", shape, zero, shape, [*ones[:-1], 2], (*shape[:-1], 4))
        yield of(
            f"rank {rank} begin_mask", shape, [*zero[:-1], 3], shape, ones, shape, begin_mask=2**rank - 1
        )
        yield of(f"rank {rank} end_mask", shape, zero, ones, ones, shape, end_mask=2**rank - 1)
    four = [1] * 4
    yield of("negative end", SHAPE, [0] * 4, [2, 3, 5, -1], four, (2, 3, 5, 7))
    yield of("backwards", SHAPE, [1, 2, 4, 7], [0, 1, 3, 3], [-1] * 4, (1, 1, 1, 4))
    yield of("shrink_axis_mask", SHAPE, [0] * 4, [1, 3, 5, 8], four, (3, 5, 8), shrink_axis_mask=1)
    yield of("new_axis_mask", (3, 5, 8), [0] * 4, [1, 3, 5, 8], four, (1, 3, 5, 8), new_axis_mask=1)
    yield of("ellipsis_mask", SHAPE, [0, 0], [0, 4], [1, 1], (2, 3, 5, 4), ellipsis_mask=1)
    yield of("fewer indices", SHAPE, [0, 1, 2], [2, 3, 5], [1, 1, 1], (2, 2, 3, 8))
    yield of("far fewer indices", SHAPE, [0, 1], [2, 3], [1, 1], (2, 2, 5, 8))
    for version in range(2, 9):
        yield of(f"version {version}", SHAPE, [0] * 4, [2, 3, 5, 4], four, (2, 3, 5, 4), version=version)
    for dtype in DTYPES:
        yield of(f"of {dtype}", SHAPE, [0] * 4, [2, 3, 5, 4], four, (2, 3, 5, 4), dtype=dtype)


def _split() -> Iterator[Case]:
    for shape in RANKS[1:]:
        for axis in {0, len(shape) - 1} - ({0} if shape[0] % 2 else set()):
            half = tuple(n // 2 if i == axis else n for i, n in enumerate(shape))
            two = [(half, "FLOAT32"), (half, "FLOAT32")]
            inputs = [scalar(axis, "INT32"), given(*shape)]
            yield one(f"SPLIT rank {len(shape)} axis {axis}", inputs, *two, num_splits=2)
            sizes = [given(*shape), ints(half[axis], half[axis]), scalar(axis, "INT32")]
            yield one(f"SPLIT_V rank {len(shape)} axis {axis}", sizes, *two, num_splits=2)
    yield one("SPLIT in one", [scalar(3, "INT32"), given(*SHAPE)], (SHAPE, "FLOAT32"), num_splits=1)
    whole = [given(*SHAPE), ints(8), scalar(3, "INT32")]
    yield one("SPLIT_V in one", whole, (SHAPE, "FLOAT32"), num_splits=1)
    half = ((2, 3, 5, 4), "FLOAT32")
    yield one("SPLIT negative axis", [scalar(-1, "INT32"), given(*SHAPE)], half, half, num_splits=2)
    yield one("SPLIT of a constant", [scalar(-1, "INT32"), numbers(*SHAPE)], half, half, num_splits=2)
    uneven = [given(*SHAPE), ints(3, 5), scalar(3, "INT32")]
    yield one("SPLIT_V uneven", uneven, ((2, 3, 5, 3), "FLOAT32"), ((2, 3, 5, 5), "FLOAT32"), num_splits=2)
    for version in range(2, 6):
        inputs = [scalar(3, "INT32"), given(*SHAPE)]
        yield one(f"SPLIT version {version}", inputs, half, half, num_splits=2, version=version)
    for dtype in ("INT32", "INT8"):
        part = ((2, 3, 5, 4), dtype)
        yield one(
            f"SPLIT of {dtype}", [scalar(3, "INT32"), given(*SHAPE, dtype=dtype)], part, part, num_splits=2
        )


def _concatenation() -> Iterator[Case]:
    for shape in RANKS[1:]:
        for axis in range(len(shape)):
            result = tuple(2 * n if i == axis else n for i, n in enumerate(shape))
            two = [given(*shape), given(*shape)]
            yield one(f"CONCATENATION rank {len(shape)} axis {axis}", two, (result, "FLOAT32"), axis=axis)
    wide = ((2, 3, 5, 16), "FLOAT32")
    yield one("CONCATENATION negative axis", [given(*SHAPE), given(*SHAPE)], wide, axis=-1)
    yield one("CONCATENATION with a constant", [given(*SHAPE), numbers(*SHAPE)], wide, axis=3)
    two = [given(3, 5, 8), numbers(3, 5, 8)]
    yield one("CONCATENATION rank 3 with a constant", two, ((3, 5, 16), "FLOAT32"), axis=2)
    two = [given(5, 8), numbers(5, 8)]
    yield one("CONCATENATION rank 2 with a constant", two, ((10, 8), "FLOAT32"), axis=0)
    yield one("CONCATENATION of constants", [numbers(*SHAPE), numbers(*SHAPE)], wide, axis=3)
    same = given(*SHAPE)
    yield one("CONCATENATION of one tensor twice", [same, same], wide, axis=3)
    yield one("CONCATENATION of one", [given(*SHAPE)], (SHAPE, "FLOAT32"), axis=3)
    five = [given(2, 3, 5, n) for n in (1, 2, 3, 4, 6)]
    yield one("CONCATENATION of five", five, wide, axis=3)
    for activation in ("RELU", "SIGN_BIT"):
        two = [given(*SHAPE), given(*SHAPE)]
        name = f"CONCATENATION then {activation}"
        yield one(name, two, wide, axis=3, fused_activation_function=activation)
    for version in range(2, 8):
        two = [given(*SHAPE), given(*SHAPE)]
        yield one(f"CONCATENATION version {version}", two, wide, axis=3, version=version)
    for dtype in DTYPES:
        two = [given(*SHAPE, dtype=dtype), given(*SHAPE, dtype=dtype)]
        yield one(f"CONCATENATION of {dtype}", two, ((2, 3, 5, 16), dtype), axis=3)


def _pack() -> Iterator[Case]:
    for shape in RANKS:
        for axis in (0, len(shape)):
            result = (*shape[:axis], 2, *shape[axis:])
            two = [given(*shape), given(*shape)]
            name = f"PACK rank {len(shape)} axis {axis}"
            yield one(name, two, (result, "FLOAT32"), values_count=2, axis=axis)
    half = [given(3, 5, 8), numbers(3, 5, 8)]
    yield one("PACK with a constant", half, ((2, 3, 5, 8), "FLOAT32"), values_count=2, axis=0)
    yield one("PACK of one", [given(3, 5, 8)], ((1, 3, 5, 8), "FLOAT32"), values_count=1, axis=0)
    for version in range(2, 6):
        two = [given(3, 5, 8), given(3, 5, 8)]
        yield one(f"PACK version {version}", two, (SHAPE, "FLOAT32"), values_count=2, version=version)
    two = [given(3, 5, 8, dtype="INT32"), given(3, 5, 8, dtype="INT32")]
    yield one("PACK of INT32", two, (SHAPE, "INT32"), values_count=2)


def _unpack() -> Iterator[Case]:
    for shape in RANKS[1:]:
        for axis in (0, len(shape) - 1):
            part = ((*shape[:axis], *shape[axis + 1 :]), "FLOAT32")
            parts = [part] * shape[axis]
            name = f"UNPACK rank {len(shape)} axis {axis}"
            yield one(name, [given(*shape)], *parts, num=shape[axis], axis=axis)
    yield one("UNPACK in one", [given(1, 5, 8)], ((5, 8), "FLOAT32"), num=1)
    yield one("UNPACK of a constant", [numbers(2, 8)], *[((8,), "FLOAT32")] * 2, num=2)
    for version in range(2, 5):
        yield one(
            f"UNPACK version {version}", [given(2, 8)], *[((8,), "FLOAT32")] * 2, num=2, version=version
        )
    yield one("UNPACK of INT32", [given(2, 8, dtype="INT32")], *[((8,), "INT32")] * 2, num=2)


def _pad() -> Iterator[Case]:
    for kind in ("PAD", "PADV2", "MIRROR_PAD"):
        more = [scalar(2.0)] if kind == "PADV2" else []
        attrs: dict[str, Any] = {"mode": 0} if kind == "MIRROR_PAD" else {}
        for shape in RANKS[1:]:
            pads = [(0, 0)] * (len(shape) - 1) + [(1, 2)]
            result = ((*shape[:-1], shape[-1] + 3), "FLOAT32")
            yield one(f"{kind} rank {len(shape)}", [given(*shape), ints(*pads), *more], result, **attrs)
        pads = [(0, 0), (1, 1), (2, 1), (0, 0)]
        result = ((2, 5, 8, 8), "FLOAT32")
        yield one(f"{kind} middle", [given(*SHAPE), ints(*pads), *more], result, **attrs)
        if kind != "MIRROR_PAD":
            many = [(1, 0), (1, 1), (2, 1), (0, 4)]
            yield one(f"{kind} all", [given(*SHAPE), ints(*many), *more], ((3, 5, 8, 12), "FLOAT32"))
        three = [given(3, 5, 8), ints((1, 1), (2, 1), (0, 0)), *more]
        yield one(f"{kind} rank 3 in front", three, ((5, 8, 8), "FLOAT32"), **attrs)
        for version in range(2, 6 if kind != "MIRROR_PAD" else 4):
            name = f"{kind} version {version}"
            yield one(name, [given(*SHAPE), ints(*pads), *more], result, version=version, **attrs)
        yield one(f"{kind} of a constant", [numbers(*SHAPE), ints(*pads), *more], result, **attrs)
        runtime = [given(*SHAPE), given(4, 2, dtype="INT32"), *more]
        yield one(f"{kind} runtime paddings", runtime, result, **attrs)
        long = [given(*SHAPE), ints(*pads, dtype="INT64"), *more]
        yield one(f"{kind} INT64 paddings", long, result, **attrs)
    two = [given(*SHAPE), ints((0, 0), (1, 1), (1, 1), (0, 0))]
    yield one("MIRROR_PAD symmetric", two, ((2, 5, 7, 8), "FLOAT32"), mode=1)
    runtime = [given(*SHAPE), ints(*pads), given()]
    yield one("PADV2 runtime value", runtime, ((2, 5, 8, 8), "FLOAT32"))
    for dtype in ("INT32", "INT8", "BOOL"):
        more = [given(*SHAPE, dtype=dtype), ints(*pads), scalar(1, dtype)]
        yield one(f"PADV2 of {dtype}", more, ((2, 5, 8, 8), dtype))
        yield one(f"PAD of {dtype}", [given(*SHAPE, dtype=dtype), ints(*pads)], ((2, 5, 8, 8), dtype))


def _tile() -> Iterator[Case]:
    for shape in RANKS[1:]:
        times = [1] * (len(shape) - 1) + [2]
        result = ((*shape[:-1], 16), "FLOAT32")
        yield one(f"TILE rank {len(shape)}", [given(*shape), ints(*times)], result)
        times = [3] + [1] * (len(shape) - 1)
        result = ((3 * shape[0], *shape[1:]), "FLOAT32")
        yield one(f"TILE rank {len(shape)} in front", [given(*shape), ints(*times)], result)
    wide = ((2, 3, 5, 16), "FLOAT32")
    for version in (2, 3):
        yield one(f"TILE version {version}", [given(*SHAPE), ints(1, 1, 1, 2)], wide, version=version)
    yield one("TILE of a constant", [numbers(*SHAPE), ints(1, 1, 1, 2)], wide)
    yield one("TILE runtime times", [given(2, 8), given(2, dtype="INT32")], ((2, 8), "FLOAT32"))
    for dtype in ("INT32", "INT64", "BOOL", "INT8"):
        yield one(f"TILE of {dtype}", [given(*SHAPE, dtype=dtype), ints(1, 1, 1, 2)], ((2, 3, 5, 16), dtype))


def _reverse() -> Iterator[Case]:
    for shape in RANKS[1:]:
        two = [given(*shape), ints(len(shape) - 1)]
        yield one(f"REVERSE_V2 rank {len(shape)}", two, (shape, "FLOAT32"))
    for channels in (2, 3, 5, 6, 9, 12):
        for shape in [(5, channels), (2, 3, 5, channels)]:
            two = [given(*shape), ints(len(shape) - 1)]
            yield one(f"REVERSE_V2 channels of {list(shape)}", two, (shape, "FLOAT32"))
    yield one("REVERSE_V2 beside 7 channels", [given(2, 3, 5, 7), ints(0, 2)], ((2, 3, 5, 7), "FLOAT32"))
    yield one("REVERSE_V2 all of 7 channels", [given(2, 3, 5, 7), ints(0, -1)], ((2, 3, 5, 7), "FLOAT32"))
    yield one("REVERSE_V2 negative axis", [given(*SHAPE), ints(-1)], (SHAPE, "FLOAT32"))
    yield one("REVERSE_V2 batch", [given(*SHAPE), ints(0)], (SHAPE, "FLOAT32"))
    yield one("REVERSE_V2 two axes", [given(*SHAPE), ints(1, 2)], (SHAPE, "FLOAT32"))
    yield one("REVERSE_V2 runtime axis", [given(8), given(1, dtype="INT32")], ((8,), "FLOAT32"))
    yield one("REVERSE_V2 of a constant", [numbers(*SHAPE), ints(1)], (SHAPE, "FLOAT32"))
    yield one("REVERSE_V2 of INT32", [given(*SHAPE, dtype="INT32"), ints(1)], (SHAPE, "INT32"))


def _resize() -> Iterator[Case]:
    for kind in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
        for high, wide in ((6, 10), (2, 3), (7, 11)):
            result = ((2, high, wide, 8), "FLOAT32")
            for align, half in ((False, False), (True, False), (False, True), (True, True)):
                two = [given(*SHAPE), ints(high, wide)]
                name = f"{kind} to {high}×{wide}{' align_corners' * align}{' half_pixel' * half}"
                yield one(name, two, result, align_corners=align, half_pixel_centers=half)
        result = ((2, 6, 10, 8), "FLOAT32")
        for version in (2, 3, 4):
            yield one(f"{kind} version {version}", [given(*SHAPE), ints(6, 10)], result, version=version)
        yield one(f"{kind} of a constant", [numbers(*SHAPE), ints(6, 10)], result)
        yield one(f"{kind} runtime size", [given(*SHAPE), given(2, dtype="INT32")], result)


def _blocks() -> Iterator[Case]:
    small, large = (2, 3, 5, 8), (2, 6, 10, 2)
    for batch in (1, 2):
        small, large = (batch, 3, 5, 8), (batch, 6, 10, 2)
        yield one(f"DEPTH_TO_SPACE batch {batch}", [given(*small)], (large, "FLOAT32"), block_size=2)
        yield one(f"SPACE_TO_DEPTH batch {batch}", [given(*large)], (small, "FLOAT32"), block_size=2)
    yield one("DEPTH_TO_SPACE block 1", [given(*small)], (small, "FLOAT32"), block_size=1)
    yield one("SPACE_TO_DEPTH block 1", [given(*large)], (large, "FLOAT32"), block_size=1)
    yield one("DEPTH_TO_SPACE of a constant", [numbers(*small)], (large, "FLOAT32"), block_size=2)
    yield one("SPACE_TO_DEPTH of a constant", [numbers(*large)], (small, "FLOAT32"), block_size=2)
    yield one("DEPTH_TO_SPACE version 2", [given(*small)], (large, "FLOAT32"), block_size=2, version=2)
    yield one("SPACE_TO_DEPTH version 2", [given(*large)], (small, "FLOAT32"), block_size=2, version=2)
    yield one("DEPTH_TO_SPACE of INT32", [given(*small, dtype="INT32")], (large, "INT32"), block_size=2)
