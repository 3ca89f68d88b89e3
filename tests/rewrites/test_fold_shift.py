"""What is added to every input of a pointwise layer."""

from __future__ import annotations

from typing import Any

import pytest

from graph_rewrites.fold_shift import fold_shift
from msd.ir import Build, Tensor
from tests.harness import check_no_rewrite, check_rewrite, check_untouched, conv, normal, quantised


@pytest.mark.parametrize("shape", [(5,), (1, 1, 5), (1, 1, 1, 5)])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("activation", ["NONE", "RELU6"])
def test_one_layer(shape: tuple[int, ...], flip: bool, activation: str) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        operands = (x, new.const(normal(*shape)))
        shifted = new.ADD(*(operands[::-1] if flip else operands))
        return conv(new, shifted, 7, fused_activation_function=activation)

    check_rewrite(
        [fold_shift],
        before,
        lambda new, x: conv(new, x, 7, fused_activation_function=activation),
        x=(2, 3, 4, 5),
    )


def test_every_layer_that_reads_it() -> None:
    def spell(new: Build, x: Tensor, shifted: Tensor) -> tuple[Tensor, ...]:
        return conv(new, shifted, 7), conv(new, shifted, 2, padding="VALID"), new.TANH(x)

    check_rewrite(
        [fold_shift],
        lambda new, x: spell(new, x, new.ADD(x, new.const(normal(5)))),
        lambda new, x: spell(new, x, x),
        x=(2, 3, 4, 5),
    )


def test_an_output_of_the_graph_stays() -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        shifted = new.ADD(x, new.const(normal(5)))
        return conv(new, shifted, 7), shifted

    def after(new, x):  # type: ignore[no-untyped-def]
        return (conv(new, x, 7), new.ADD(x, new.const(normal(5))))

    check_rewrite([fold_shift], before, lambda new, x: after(new, x)[::1], x=(2, 3, 4, 5))


@pytest.mark.parametrize(
    ("spell", "because"),
    [
        (lambda new, x: conv(new, x, 7, (3, 3)), "the layer is not pointwise, or quantised already"),
        (
            lambda new, x: new.CONV_2D(
                x, new.const(normal(4, 1, 1, 2)), new.const(normal(4)), stride_h=1, stride_w=1
            ),
            "the layer is not pointwise, or quantised already",
        ),
        (
            lambda new, x: new.CONV_2D(
                x, quantised(7, 1, 1, 4), new.const(normal(7)), stride_h=1, stride_w=1
            ),
            "the layer is not pointwise, or quantised already",
        ),
    ],
)
def test_not_another_layer(spell, because: str) -> None:  # type: ignore[no-untyped-def]
    check_no_rewrite(
        [fold_shift],
        lambda new, x: spell(new, new.ADD(x, new.const(normal(4)))),
        because=because,
        x=(2, 3, 5, 4),
    )


@pytest.mark.parametrize("shape", [(), (1,), (4, 1), (4, 5), (3, 1, 1)])
def test_not_another_shift(shape: tuple[int, ...]) -> None:
    check_no_rewrite(
        [fold_shift],
        lambda new, x: conv(new, new.ADD(x, new.const(normal(*shape))), 7),
        because="the shift is not one number per channel",
        x=(2, 3, 4, 5),
    )


def test_not_a_shift_that_raises_the_rank() -> None:
    check_no_rewrite(
        [fold_shift],
        lambda new, x: conv(new, new.ADD(x, new.const(normal(1, 1, 1, 5))), 7),
        because="the shift is not one number per channel",
        x=(5,),
    )


@pytest.mark.parametrize("other", [lambda new, s: new.TANH(s), lambda new, s: conv(new, s, 7, (3, 3))])
def test_not_when_others_need_the_shifted_value(other: Any) -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        shifted = new.ADD(x, new.const(normal(5)))
        return conv(new, shifted, 7), other(new, shifted)

    check_no_rewrite([fold_shift], before, because="the shifted value is also used elsewhere", x=(2, 3, 4, 5))


def test_not_a_strided_layer_or_an_activated_sum() -> None:
    def shift(new, x, **attrs):  # type: ignore[no-untyped-def]
        return new.ADD(x, new.const(normal(5)), **attrs)

    check_untouched([fold_shift], lambda new, x: conv(new, shift(new, x), 7, stride_h=2), x=(2, 3, 4, 5))
    fused = {"fused_activation_function": "RELU"}
    check_untouched([fold_shift], lambda new, x: conv(new, shift(new, x, **fused), 7), x=(2, 3, 4, 5))
