"""What is added to every input of a pointwise layer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from graph_rewrites.fold_shift import fold_shift
from msd.graph.ir import Build, Tensor
from tests.harness import Spell, check_no_rewrite, check_rewrite, check_untouched, conv, normal, quantised


def shifted_by(*shape: int, **attrs: object) -> Spell:
    """A 1x1 convolution of x plus a constant."""
    return lambda new, x: conv(new, new.ADD(x, new.const(normal(*shape)), **attrs), 7)


@pytest.mark.parametrize("shape", [(5,), (1, 1, 5), (1, 1, 1, 5)])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("activation", ["NONE", "RELU6"])
def test_one_layer(shape: tuple[int, ...], flip: bool, activation: str) -> None:
    fused = {"fused_activation_function": activation}

    def before(new: Build, x: Tensor) -> Tensor:
        operands = (x, new.const(normal(*shape)))
        return conv(new, new.ADD(*(operands[::-1] if flip else operands)), 7, **fused)

    check_rewrite([fold_shift], before, lambda new, x: conv(new, x, 7, **fused), x=(2, 3, 4, 5))


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
    def spell(new: Build, x: Tensor, *, moved: bool) -> tuple[Tensor, ...]:
        shifted = new.ADD(x, new.const(normal(5)))
        return conv(new, x if moved else shifted, 7), shifted

    check_rewrite(
        [fold_shift],
        lambda new, x: spell(new, x, moved=False),
        lambda new, x: spell(new, x, moved=True),
        x=(2, 3, 4, 5),
    )


@pytest.mark.parametrize(
    "filters",
    [
        lambda new: new.const(normal(6, 3, 3, 4)),
        lambda new: new.const(normal(6, 1, 1, 2)),
        lambda new: quantised(6, 1, 1, 4),
    ],
    ids=["3x3", "grouped", "quantised"],
)
def test_not_another_layer(filters: Callable[[Build], Tensor]) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        shifted = new.ADD(x, new.const(normal(4)))
        return new.CONV_2D(shifted, filters(new), new.const(normal(6)), stride_h=1, stride_w=1)

    because = "the layer is not pointwise, or is quantised already"
    check_no_rewrite([fold_shift], before, because=because, x=(2, 3, 5, 4))


@pytest.mark.parametrize("shape", [(), (1,), (4, 1), (4, 5), (3, 1, 1)])
def test_not_another_shift(shape: tuple[int, ...]) -> None:
    because = "the shift is not one number per channel"
    check_no_rewrite([fold_shift], shifted_by(*shape), because=because, x=(2, 3, 4, 5))


def test_not_a_shift_by_rows_of_as_many_as_there_are_channels() -> None:
    because = "the shift is not one number per channel"
    check_no_rewrite([fold_shift], shifted_by(5, 1), because=because, x=(2, 3, 5, 5))


def test_not_a_shift_that_raises_the_rank() -> None:
    because = "the shift is not one number per channel"
    check_no_rewrite([fold_shift], shifted_by(1, 1, 1, 5), because=because, x=(5,))


@pytest.mark.parametrize("other", [lambda new, s: new.TANH(s), lambda new, s: conv(new, s, 7, (3, 3))])
def test_not_when_others_need_the_shifted_value(other: Callable[[Build, Tensor], Tensor]) -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        shifted = new.ADD(x, new.const(normal(5)))
        return conv(new, shifted, 7), other(new, shifted)

    check_no_rewrite([fold_shift], before, because="the shifted value is also used elsewhere", x=(2, 3, 4, 5))


def test_not_a_strided_layer_or_an_activated_sum() -> None:
    def strided(new: Build, x: Tensor) -> Tensor:
        return conv(new, new.ADD(x, new.const(normal(5))), 7, stride_h=2)

    check_untouched([fold_shift], strided, x=(2, 3, 4, 5))
    check_untouched([fold_shift], shifted_by(5, fused_activation_function="RELU"), x=(2, 3, 4, 5))
