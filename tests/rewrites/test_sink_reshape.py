"""Reshapes from rank 4 move behind work that is done place by place."""

from __future__ import annotations

from typing import Any

import pytest

from graph_rewrites.sink_reshape import (
    BINARY,
    UNARY,
    hoist_reshape_before_conv,
    sink_reshape_past_binary,
    sink_reshape_past_conv,
    sink_reshape_past_reduction,
    sink_reshape_past_unary,
)
from msd.graph.ir import Build, Tensor
from msd.graph.ir.weights import Array
from msd.graph.rewrite import Rewrite
from tests.harness import Ints, Spell, check_no_rewrite, check_rewrite, check_untouched, conv, normal

X = (2, 3, 4, 5)
POSITIVE = {"x": 0.5 + abs(normal(*X)), "y": 0.5 + abs(normal(*X, seed=2))}
FORMS = [[2, 12, 5], [24, 5], [2, 3, 2, 2, 5], [2, 4, 3, 5]]


@pytest.mark.parametrize("kind", UNARY)
@pytest.mark.parametrize("form", FORMS)
def test_unary(kind: str, form: list[int]) -> None:
    attrs = {"beta": 0.5} if kind == "SOFTMAX" else {}
    check_rewrite(
        [sink_reshape_past_unary],
        lambda new, x: getattr(new, kind)(new.RESHAPE(x, form), **attrs),
        lambda new, x: new.RESHAPE(getattr(new, kind)(x, **attrs), form),
        feeds={"x": POSITIVE["x"]},
        x=X,
    )


@pytest.mark.parametrize("kind", ["MEAN", "SUM", "REDUCE_MAX"])
@pytest.mark.parametrize(
    ("form", "axis"), [([2, 12, 5], 2), ([2, 12, 5], -1), ([24, 5], 1), ([4, 3, 2, 5], 3)]
)
def test_reductions(kind: str, form: list[int], axis: int) -> None:
    check_rewrite(
        [sink_reshape_past_reduction],
        lambda new, x: getattr(new, kind)(new.RESHAPE(x, form), [axis], keep_dims=True),
        lambda new, x: new.RESHAPE(getattr(new, kind)(x, [3], keep_dims=True), [*form[:-1], 1]),
        x=X,
    )


@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize("form", FORMS)
def test_two_of_one_form(kind: str, form: list[int]) -> None:
    check_rewrite(
        [sink_reshape_past_binary],
        lambda new, x, y: getattr(new, kind)(new.RESHAPE(x, form), new.RESHAPE(y, form)),
        lambda new, x, y: new.RESHAPE(getattr(new, kind)(x, y), form),
        feeds=POSITIVE,
        x=X,
        y=X,
    )


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(
    ("shape", "kept"),
    [((5,), (5,)), ((1, 5), (5,)), ((1, 1, 5), (5,)), ((1, 1, 1, 5), (5,)), ((), ()), ((1, 1), (1, 1))],
)
def test_beside_a_constant(shape: tuple[int, ...], kept: tuple[int, ...], flip: bool) -> None:
    def spell(new: Build, x: Tensor, constant: Array) -> Tensor:
        operands = (x, new.const(constant))
        return new.SUB(*(operands[::-1] if flip else operands), fused_activation_function="RELU6")

    out = [1, 2, 12, 5] if len(shape) == 4 else [2, 12, 5]
    check_rewrite(
        [sink_reshape_past_binary],
        lambda new, x: spell(new, new.RESHAPE(x, [2, 12, 5]), normal(*shape)),
        lambda new, x: new.RESHAPE(spell(new, x, normal(*kept)), out),
        x=X,
    )


@pytest.mark.parametrize("flip", [False, True])
def test_beside_one_number_per_place(flip: bool) -> None:
    """x - mean, where the mean has been reshaped as well."""

    def spell(new: Build, a: Tensor, b: Tensor) -> Tensor:
        return new.SUB(*((b, a) if flip else (a, b)))

    check_rewrite(
        [sink_reshape_past_binary],
        lambda new, x, m: spell(new, new.RESHAPE(x, [2, 12, 5]), new.RESHAPE(m, [2, 12, 1])),
        lambda new, x, m: new.RESHAPE(spell(new, x, m), [2, 12, 5]),
        x=X,
        m=(2, 3, 4, 1),
    )


@pytest.mark.parametrize("flip", [False, True])
def test_beside_what_is_not_reshaped(flip: bool) -> None:
    def spell(new: Build, a: Tensor, b: Tensor) -> Tensor:
        return new.SUB(*((b, a) if flip else (a, b)))

    check_rewrite(
        [sink_reshape_past_binary],
        lambda new, x, y: spell(new, new.RESHAPE(x, [2, 12, 5]), new.TANH(y)),
        lambda new, x, y: new.RESHAPE(spell(new, x, new.RESHAPE(new.TANH(y), [2, 3, 4, 5])), [2, 12, 5]),
        x=X,
        y=(2, 12, 5),
    )


@pytest.mark.parametrize("flip", [False, True])
def test_of_two_forms_the_one_with_more_rows_wins(flip: bool) -> None:
    def spell(new: Build, a: Tensor, b: Tensor) -> Tensor:
        return new.SUB(*((b, a) if flip else (a, b)))

    check_rewrite(
        [sink_reshape_past_binary],
        lambda new, x, y: spell(new, new.RESHAPE(x, [2, 12, 5]), new.RESHAPE(y, [2, 12, 5])),
        lambda new, x, y: new.RESHAPE(
            spell(new, new.RESHAPE(new.RESHAPE(x, [2, 12, 5]), [2, 6, 2, 5]), y), [2, 12, 5]
        ),
        x=X,
        y=(2, 6, 2, 5),
    )


def test_twice_the_same() -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        flat = new.RESHAPE(x, [2, 12, 5])
        return new.MUL(flat, flat)

    def after(new: Build, x: Tensor) -> Tensor:
        return new.RESHAPE(new.MUL(x, x), [2, 12, 5])

    check_rewrite([sink_reshape_past_binary], before, after, x=X)


@pytest.mark.parametrize("attrs", [{}, {"fused_activation_function": "RELU"}, {"padding": "VALID"}])
def test_pointwise_layers(attrs: dict[str, Any]) -> None:
    check_rewrite(
        [sink_reshape_past_conv],
        lambda new, x: conv(new, new.RESHAPE(x, [2, 1, 12, 5]), 7, **attrs),
        lambda new, x: new.RESHAPE(conv(new, x, 7, **attrs), [2, 1, 12, 7]),
        x=X,
    )


@pytest.mark.parametrize("attrs", [{}, {"fused_activation_function": "RELU"}])
def test_heads_are_joined_in_the_picture_they_go_to(attrs: dict[str, Any]) -> None:
    check_rewrite(
        [hoist_reshape_before_conv],
        lambda new, x: new.RESHAPE(conv(new, new.RESHAPE(x, [2, 1, 12, 10]), 7, **attrs), [2, 3, 4, 7]),
        lambda new, x: conv(new, new.RESHAPE(x, [2, 3, 4, 10]), 7, **attrs),
        x=(2, 12, 2, 5),
    )


def flat(new: Build, x: Tensor) -> Tensor:
    return new.RESHAPE(x, [2, 4, 15])


NOT_RANK_4: list[tuple[Rewrite, Spell, str]] = [
    (sink_reshape_past_unary, lambda new, x: new.TANH(flat(new, x)), "its input is not reshaped from rank 4"),
    (sink_reshape_past_unary, lambda new, x: new.TANH(x), "its input is not reshaped from rank 4"),
    (
        sink_reshape_past_reduction,
        lambda new, x: new.MEAN(flat(new, x), [2], keep_dims=True),
        "its input is not reshaped from rank 4, or another axis than the last is reduced",
    ),
    (
        sink_reshape_past_reduction,
        lambda new, x: new.MEAN(new.RESHAPE(x, [2, 12, 5]), [1], keep_dims=True),
        "its input is not reshaped from rank 4, or another axis than the last is reduced",
    ),
    (
        sink_reshape_past_reduction,
        lambda new, x: new.MEAN(new.RESHAPE(x, [2, 12, 5]), [1, 2], keep_dims=True),
        "its input is not reshaped from rank 4, or another axis than the last is reduced",
    ),
    (
        sink_reshape_past_reduction,
        lambda new, x: new.MEAN(new.RESHAPE(x, [2, 12, 5]), [2]),
        "it drops the axis",
    ),
    (
        sink_reshape_past_binary,
        lambda new, x: new.ADD(flat(new, x), new.const(normal(15))),
        "its operands are not reshaped from one rank 4 shape",
    ),
    (
        sink_reshape_past_binary,
        lambda new, x: new.ADD(new.RESHAPE(x, [2, 12, 5]), new.const(normal(12, 5))),
        "its operands are not reshaped from one rank 4 shape",
    ),
    (
        sink_reshape_past_binary,
        lambda new, x: new.ADD(new.RESHAPE(x, [2, 12, 5]), new.const(normal(12, 1))),
        "its operands are not reshaped from one rank 4 shape",
    ),
    (
        sink_reshape_past_conv,
        lambda new, x: conv(new, new.RESHAPE(x, [2, 1, 4, 15]), 7),
        "its input is not reshaped from rank 4, or it is not 1x1",
    ),
    (
        sink_reshape_past_conv,
        lambda new, x: conv(new, new.RESHAPE(x, [2, 1, 12, 5]), 7, (3, 3)),
        "its input is not reshaped from rank 4, or it is not 1x1",
    ),
    (
        sink_reshape_past_conv,
        lambda new, x: conv(new, new.RESHAPE(x, [2, 1, 12, 5]), 7, stride_w=2),
        "its input is not reshaped from rank 4, or it is not 1x1",
    ),
    (sink_reshape_past_conv, lambda new, x: conv(new, new.RESHAPE(x, [1, 6, 4, 5]), 7), "the batch changes"),
]


@pytest.mark.parametrize(("rule", "spell", "because"), NOT_RANK_4)
def test_not_elsewhere(rule: Rewrite, spell: Spell, because: str) -> None:
    check_no_rewrite([rule], spell, because, x=X)


def test_not_beside_a_value_of_another_shape() -> None:
    check_no_rewrite(
        [sink_reshape_past_binary],
        lambda new, x, y: new.ADD(new.RESHAPE(x, [2, 12, 5]), new.TANH(y)),
        because="its operands are not reshaped from one rank 4 shape",
        x=X,
        y=(12, 5),
    )


def test_not_over_axes_that_are_not_known() -> None:
    def before(new: Build, x: Tensor, axes: Tensor) -> Tensor:
        y = new.MEAN(new.RESHAPE(x, [2, 12, 5]), [2], keep_dims=True)
        y.maker.inputs = (y.maker.inputs[0], axes)
        return y

    because = "its input is not reshaped from rank 4, or another axis than the last is reduced"
    check_no_rewrite([sink_reshape_past_reduction], before, because, x=X, axes=Ints((1,)))


OTHER_RESULT = "the last axis changes, the result is not of rank 4, or the filter is not 1x1"


@pytest.mark.parametrize(
    ("spell", "because"),
    [
        (
            lambda new, x: new.RESHAPE(conv(new, new.RESHAPE(x, [2, 1, 12, 10]), 6), [2, 12, 2, 3]),
            OTHER_RESULT,
        ),
        (lambda new, x: new.RESHAPE(conv(new, new.RESHAPE(x, [2, 1, 12, 10]), 7), [2, 12, 7]), OTHER_RESULT),
        (
            lambda new, x: new.RESHAPE(conv(new, new.RESHAPE(x, [2, 1, 12, 10]), 7, (1, 3)), [2, 3, 4, 7]),
            OTHER_RESULT,
        ),
        (
            lambda new, x: new.RESHAPE(conv(new, new.TANH(x), 7), [2, 2, 12, 7]),
            "the convolution's input is not reshaped from heads",
        ),
        (
            lambda new, x: new.RESHAPE(conv(new, x, 7), [2, 2, 12, 7]),
            "the convolution's input is not reshaped from heads",
        ),
        (
            lambda new, x: new.RESHAPE(conv(new, new.RESHAPE(x, [2, 3, 8, 5]), 7), [2, 2, 12, 7]),
            "the convolution's input is not reshaped from heads",
        ),
    ],
)
def test_not_hoisted(spell: Spell, because: str) -> None:
    check_no_rewrite([hoist_reshape_before_conv], spell, because, x=(2, 12, 2, 5))


def test_not_hoisted_when_the_layers_result_is_used_too() -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        y = conv(new, new.RESHAPE(x, [2, 1, 12, 10]), 7)
        return new.RESHAPE(y, [2, 3, 4, 7]), y

    because = "the inner CONV_2D is also used elsewhere"
    check_no_rewrite([hoist_reshape_before_conv], before, because, x=(2, 12, 2, 5))


def test_an_operand_without_a_reshape_is_left_alone() -> None:
    check_untouched([hoist_reshape_before_conv], lambda new, x: conv(new, x, 7), x=X)
