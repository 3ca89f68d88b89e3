"""Layers whose result is only taken apart."""

from __future__ import annotations

from typing import Any

import pytest

from graph_rewrites.split_sliced_layer import split_sliced_layer
from msd.graph.ir import Build, Tensor
from msd.graph.rewrite import Target
from msd.graph.rewrite.spelling import spelling_of
from tests.harness import (
    Ints,
    Spell,
    check_no_rewrite,
    check_rewrite,
    check_untouched,
    conv,
    dense,
    normal,
    quantised,
    strided_slice,
)

ODD: dict[str, Any] = {"padding": "VALID", "stride_h": 2, "fused_activation_function": "RELU6"}


def test_geglu() -> None:
    """Both halves of a joint layer, whichever is wanted first."""

    def before(new: Build, x: Tensor) -> Tensor:
        value, gate = new.SPLIT(-1, dense(new, x, 12), 2)
        return new.MUL(new.GELU(gate), value)

    def after(new: Build, x: Tensor) -> Tensor:
        value, gate = dense(new, x, 6), dense(new, x, 6)
        return new.MUL(new.GELU(gate), value)

    check_rewrite([split_sliced_layer], before, after, x=(2, 3, 5))


def test_queries_keys_and_values() -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(new.TANH(t) for t in new.SPLIT(3, conv(new, x, 12, (3, 2), **ODD), 3))

    def after(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        parts = [conv(new, x, 4, (3, 2), **ODD) for _ in range(3)]
        return tuple(new.TANH(t) for t in parts)

    check_rewrite([split_sliced_layer], before, after, x=(2, 6, 5, 3))


def test_parts_that_are_outputs() -> None:
    check_rewrite(
        [split_sliced_layer],
        lambda new, x: new.SPLIT(2, dense(new, x, 12), 2),
        lambda new, x: (dense(new, x, 6), dense(new, x, 6)),
        x=(2, 3, 5),
    )


def test_a_part_nobody_wants_is_not_computed() -> None:
    check_rewrite(
        [split_sliced_layer],
        lambda new, x: new.SPLIT(2, dense(new, x, 12), 3)[1],
        lambda new, x: dense(new, x, 4),
        x=(2, 3, 5),
    )


@pytest.mark.parametrize("keep", [False, True])
def test_slices_of_any_size(keep: bool) -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        y = dense(new, x, 12, keep_num_dims=keep)
        front, rest = [0] * (len(y.shape) - 1), list(y.shape[:-1])
        return new.SLICE(y, [*front, 0], [*rest, 5]), new.SLICE(y, [*front, 5], [*rest, -1])

    def after(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        return dense(new, x, 5, keep_num_dims=keep), dense(new, x, 7, keep_num_dims=keep)

    check_rewrite([split_sliced_layer], before, after, x=(2, 3, 5))


@pytest.mark.parametrize(
    ("begin", "end", "attrs", "width"),
    [
        ([0, 0, 5], [2, 3, 12], {}, 7),
        ([0, 0, -5], [2, 3, 12], {}, 5),
        ([0, 0, 9], [0, 0, 0], {"begin_mask": 3, "end_mask": 7}, 3),
        ([0, 0, 9], [0, 0, 7], {"begin_mask": 7, "end_mask": 3}, 7),
        ([0, 0, -20], [2, 3, 4], {}, 4),
    ],
    ids=["from", "from behind", "masked end", "masked begin", "before the first"],
)
def test_strided_slices(begin: list[int], end: list[int], attrs: dict[str, int], width: int) -> None:
    check_rewrite(
        [split_sliced_layer],
        lambda new, x: strided_slice(new, dense(new, x, 12), begin, end, [1, 1, 1], (2, 3, width), **attrs),
        lambda new, x: dense(new, x, width),
        x=(2, 3, 5),
    )


def also_used(new: Build, x: Tensor) -> Tensor:
    y = dense(new, x, 10)
    a, b = new.SPLIT(2, y, 2)
    return new.ADD(new.MUL(a, b), new.MEAN(y, [2], keep_dims=True))


def also_cut_otherwise(new: Build, x: Tensor) -> Tensor:
    y = dense(new, x, 10)
    a, b = new.SPLIT(2, y, 2)
    return new.ADD(new.MUL(a, b), new.SLICE(y, [0, 1, 0], [2, 1, 5]))


def without_bias(new: Build, x: Tensor) -> Tensor:
    y = new.FULLY_CONNECTED(x, new.const(normal(10, 5)), None, keep_num_dims=True)
    return new.SPLIT(2, y, 2)[0]


def runtime_weights(new: Build, x: Tensor) -> Tensor:
    y = new.FULLY_CONNECTED(x, new.RESHAPE(new.SLICE(x, [0, 0, 0], [2, 1, 5]), [2, 5]), new.const(normal(2)))
    return new.SPLIT(1, y, 2)[0]


def runtime_bias(new: Build, x: Tensor) -> Tensor:
    bias = new.RESHAPE(new.SLICE(x, [0, 0, 0], [2, 2, 1]), [4])
    return new.SPLIT(2, new.FULLY_CONNECTED(x, new.const(normal(4, 5)), bias, keep_num_dims=True), 2)[0]


def hybrid(new: Build, x: Tensor) -> Tensor:
    return new.SPLIT(
        2, new.FULLY_CONNECTED(x, quantised(10, 5), new.const(normal(10)), keep_num_dims=True), 2
    )[0]


def flattened(new: Build, x: Tensor) -> Tensor:
    return new.SPLIT(1, new.FULLY_CONNECTED(x, new.const(normal(4, 15)), new.const(normal(4))), 2)[0]


NOT_LAYER = "its input is not the result of a layer"
NOT_RANGE = "it is not a range of channels"
NOT_PLAIN = "the layer's weights are not plain constants over all channels"


@pytest.mark.parametrize(
    ("spell", "because"),
    [
        (lambda new, x: new.SPLIT(0, x, 2)[0], NOT_LAYER),
        (lambda new, x: new.SPLIT(0, new.TANH(x), 2)[0], NOT_LAYER),
        (without_bias, NOT_LAYER),
        (lambda new, x: new.SPLIT(2, new.CONCATENATION(x, new.TANH(x), x, axis=2), 3)[1], NOT_LAYER),
        (lambda new, x: new.SPLIT(0, dense(new, x, 10), 2)[0], NOT_RANGE),
        (lambda new, x: new.SLICE(dense(new, x, 10), [0, 1, 0], [2, 2, 5]), NOT_RANGE),
        (
            lambda new, x: strided_slice(new, dense(new, x, 10), [0, 0, 0], [2, 3, 10], [1, 1, 2], (2, 3, 5)),
            NOT_RANGE,
        ),
        (
            lambda new, x: strided_slice(
                new, dense(new, x, 10), [0, 3], [0, 8], [1, 1], (2, 3, 5), ellipsis_mask=1
            ),
            NOT_RANGE,
        ),
        (also_used, "the layer's whole result is also used"),
        (also_cut_otherwise, "the layer's whole result is also used"),
        (runtime_weights, NOT_PLAIN),
        (runtime_bias, NOT_PLAIN),
        (hybrid, NOT_PLAIN),
        (flattened, NOT_PLAIN),
    ],
)
def test_not_otherwise(spell: Spell, because: str) -> None:
    check_no_rewrite([split_sliced_layer], spell, because, x=(2, 3, 5))


def test_not_a_grouped_convolution() -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        y = new.CONV_2D(x, new.const(normal(6, 1, 1, 2)), new.const(normal(6)), stride_h=1, stride_w=1)
        return new.SPLIT(3, y, 2)[1]

    check_no_rewrite([split_sliced_layer], before, NOT_PLAIN, x=(1, 3, 5, 4))


@pytest.mark.parametrize("kind", ["SLICE", "SPLIT"])
def test_not_a_range_that_is_not_known(kind: str) -> None:
    def before(new: Build, x: Tensor, at: Tensor) -> Tensor:
        y = dense(new, x, 10)
        part = new.SLICE(y, [0, 0, 0], [2, 3, 5]) if kind == "SLICE" else new.SPLIT(2, y, 2)[0]
        operands = part.maker.inputs
        part.maker.inputs = (y, at, operands[2]) if kind == "SLICE" else (at, y)
        return part

    check_no_rewrite(
        [split_sliced_layer], before, NOT_RANGE, x=(2, 3, 5), at=Ints((3,) if kind == "SLICE" else (1,))
    )


def test_a_split_layer_stays_where_the_spelling_has_it() -> None:
    filters, bias = normal(6, 1, 1, 5), normal(6)

    def before(new, x):  # type: ignore[no-untyped-def]
        layer = new.CONV_2D(x, new.const(filters), new.const(bias), padding="VALID", stride_h=1, stride_w=1)
        first, second = new.SPLIT(3, layer, 2)
        return new.MUL(first, second)

    target = Target(spelling=spelling_of("", {"gated_layer": "split"}))
    check_untouched([split_sliced_layer], before, target=target, x=(2, 3, 4, 5))
