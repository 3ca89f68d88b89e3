"""Cases of paddings: those that the delegate merges with what reads them, and what they pad."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from msd.graph.ir import Op, Quant, Tensor
from msd.graph.ir.weights import Weights
from tests.oracle.case import Case, given, ints, model, numbers, op, scalar

F32 = "FLOAT32"
Pads = Sequence[tuple[int, int]]
SIDES: Pads = ((0, 0), (2, 1), (2, 1), (0, 0))
KINDS = ("AVERAGE_POOL_2D", "MAX_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")


def cases() -> Iterator[Case]:
    """Yield every case of this file."""
    for kind in KINDS:
        yield from _before(kind)
    yield from _images()
    yield from _rank_three()
    yield from _integers()


def _before(kind: str) -> Iterator[Case]:
    """A padding of height and width, or of more, and what reads it."""

    def read_too(padded: Tensor) -> list[Op]:
        return [_reader(kind, padded), op("TANH", [padded], (padded.shape, F32))]

    def alone(padded: Tensor) -> list[Op]:
        return [_reader(kind, padded)]

    def later(padded: Tensor) -> list[Op]:
        tanh = op("TANH", [padded], (padded.shape, F32))
        return [tanh, _reader(kind, tanh.outputs[0])]

    yield _padded(f"PAD for {kind}", alone)
    yield _padded(f"PAD for {kind} of two images", alone, batch=2)
    yield _padded(f"PAD for {kind}, in front", alone, [(0, 0), (2, 0), (0, 0), (0, 0)])
    yield _padded(f"PAD for {kind}, channels too", alone, [(0, 0), (1, 1), (1, 1), (0, 4)])
    yield _padded(f"PAD for {kind}, images too", alone, [(1, 0), (1, 1), (1, 1), (0, 0)], batch=2)
    yield _padded(f"PAD for {kind}, nothing", alone, [(0, 0)] * 4)
    yield _padded(f"PAD for {kind} and another", read_too)
    yield _padded(f"PAD then TANH for {kind}", later)
    for value in (0.0, 2.0, -3e38):
        if value > -1 or kind not in ("AVERAGE_POOL_2D", "TRANSPOSE_CONV"):  # their sums would overflow
            yield _padded(f"PADV2 with {value:g} for {kind}", alone, value=value)
    yield _padded(f"PADV2 for {kind} and another", read_too, value=2.0)
    yield _padded(f"MIRROR_PAD for {kind}", alone, mirrored=True)


def _padded(
    name: str,
    then: Callable[[Tensor], list[Op]],
    pads: Pads = SIDES,
    *,
    batch: int = 1,
    value: float | None = None,
    mirrored: bool = False,
) -> Case:
    shape = (batch, 8, 8, 4)
    inputs = [given(*shape), ints(*pads), *([] if value is None else [scalar(value)])]
    attrs = {"mode": 0} if mirrored else {}
    first = op(name.split()[0], inputs, (_grown(shape, pads), F32), **attrs)
    return Case(name, model(first, *then(first.outputs[0])))


def _grown(shape: tuple[int, ...], pads: Pads) -> tuple[int, ...]:
    return tuple(n + sum(pair) for n, pair in zip(shape, pads, strict=True))


def _reader(kind: str, x: Tensor) -> Op:
    batch, height, width, channels = x.shape
    steps = {"stride_h": 1, "stride_w": 1, "padding": "VALID"}
    if kind == "TRANSPOSE_CONV":
        shape = (batch, height + 1, width + 1, 5)
        return op(kind, [ints(*shape), numbers(5, 2, 2, channels), x], (shape, F32), **steps)
    smaller = (batch, height - 2, width - 2)
    if kind == "CONV_2D":
        return op(kind, [x, numbers(8, 3, 3, channels), numbers(8)], ((*smaller, 8), F32), **steps)
    if kind == "DEPTHWISE_CONV_2D":
        weights = [numbers(1, 3, 3, channels), numbers(channels)]
        return op(kind, [x, *weights], ((*smaller, channels), F32), depth_multiplier=1, **steps)
    return op(kind, [x], ((*smaller, channels), F32), filter_height=3, filter_width=3, **steps)


def _images() -> Iterator[Case]:
    """The batch is padded: of one image, and of several."""
    for batch in (1, 2):
        for pads in [((1, 0), (0, 0), (0, 0), (0, 0)), ((0, 1), (1, 0), (0, 0), (0, 4))]:
            shape = (batch, 3, 5, 8)
            for kind, more in (("PAD", []), ("PADV2", [scalar(2.0)])):
                made = op(kind, [given(*shape), ints(*pads), *more], (_grown(shape, pads), F32))
                yield Case(f"{kind} of a batch of {batch} by {pads}", model(made))


def _rank_three() -> Iterator[Case]:
    for shape in [(1, 5, 8), (3, 5, 8)]:
        for pads in [((1, 2), (0, 0), (0, 0)), ((0, 0), (2, 1), (1, 0)), ((0, 0), (0, 0), (0, 0))]:
            for kind in ("PAD", "PADV2", "MIRROR_PAD"):
                if kind == "MIRROR_PAD" and pads[0][1] >= shape[0]:
                    continue
                more = [scalar(2.0)] if kind == "PADV2" else []
                attrs = {"mode": 0} if kind == "MIRROR_PAD" else {}
                made = op(kind, [given(*shape), ints(*pads), *more], (_grown(shape, pads), F32), **attrs)
                yield Case(f"{kind} of {list(shape)} by {pads}", model(made))


def _integers() -> Iterator[Case]:
    """Small integers with a scale and without one, and what they are padded with."""
    pads = ((0, 0), (1, 1), (0, 0), (0, 0))
    for dtype in ("INT8", "UINT8"):
        for scale in (None, 0.05):
            name = "with a scale" if scale else "without a scale"
            for kind in ("PAD", "MIRROR_PAD"):
                x, attrs = given(1, 3, 5, 8, dtype=dtype, scale=scale), {"mode": 0} if kind != "PAD" else {}
                y = Tensor("y", (1, 5, 5, 8), dtype, quant=x.quant)
                yield Case(f"{kind} of {dtype} {name}", model(op(kind, [x, ints(*pads)], y, **attrs)))
            for quant in (None, Quant(np.float32([0.05]), np.int64([0]))):
                x, value = given(1, 3, 5, 8, dtype=dtype, scale=scale), scalar(3, dtype)
                value = Tensor("s", (), dtype, Weights.of(value.values()), quant)
                y = Tensor("y", (1, 5, 5, 8), dtype, quant=x.quant)
                what = "a number with a scale" if quant else "a number without one"
                made = op("PADV2", [x, ints(*pads), value], y)
                yield Case(f"PADV2 of {dtype} {name} by {what}", model(made))
    for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        x = given(1, 8, 8, 4, dtype="INT8", scale=0.05)
        first = op("PAD", [x, ints(*SIDES)], Tensor("y", (1, 11, 11, 4), "INT8", quant=x.quant))
        last = _reader(kind, first.outputs[0])
        y = Tensor("y", last.outputs[0].shape, "INT8", quant=x.quant)
        quantised = op(kind, [first.outputs[0]], y, **{k: v for k, v in last.attrs.items()})
        yield Case(f"PAD of INT8 for {kind}", model(first, quantised))
