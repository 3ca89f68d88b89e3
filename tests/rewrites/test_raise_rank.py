"""Work of rank below 4, done at rank 4."""

from __future__ import annotations

import pytest

from graph_rewrites.raise_rank import PLACEWISE, raise_rank, raise_rank_of_reduction
from msd.graph.ir import Build, Tensor
from tests.harness import Ints, check_no_rewrite, check_rewrite, normal

RAISED = {(5,): [1, 1, 1, 5], (2, 5): [2, 1, 1, 5], (2, 3, 5): [2, 1, 3, 5]}
BINARY = ("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB")
UNARY = tuple(kind for kind in PLACEWISE if kind not in BINARY)


def feeds(shape: tuple[int, ...], *names: str) -> dict[str, object]:
    """Positive numbers, for RSQRT, SQRT and DIV."""
    return {name: 0.5 + i + abs(normal(*shape)) for i, name in enumerate(names)}


@pytest.mark.parametrize("kind", UNARY)
@pytest.mark.parametrize("shape", RAISED)
def test_unary(kind: str, shape: tuple[int, ...]) -> None:
    check_rewrite(
        [raise_rank],
        lambda new, x: getattr(new, kind)(x),
        lambda new, x: new.RESHAPE(getattr(new, kind)(new.RESHAPE(x, RAISED[shape])), list(shape)),
        feeds=feeds(shape, "x"),
        x=shape,
    )


@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize("shape", RAISED)
def test_binary(kind: str, shape: tuple[int, ...]) -> None:
    check_rewrite(
        [raise_rank],
        lambda new, x, y: getattr(new, kind)(x, y),
        lambda new, x, y: new.RESHAPE(
            getattr(new, kind)(new.RESHAPE(x, RAISED[shape]), new.RESHAPE(y, RAISED[shape])), list(shape)
        ),
        feeds=feeds(shape, "x", "y"),
        x=shape,
        y=shape,
    )


@pytest.mark.parametrize(
    ("constant", "raised"),
    [
        ((5,), (1, 1, 1, 5)),
        ((3, 5), (1, 1, 3, 5)),
        ((2, 3, 1), (2, 1, 3, 1)),
        ((1, 1, 1), (1, 1, 1)),
        ((), ()),
    ],
)
@pytest.mark.parametrize("flip", [False, True])
def test_constants(constant: tuple[int, ...], raised: tuple[int, ...], flip: bool) -> None:
    """Without a RESHAPE; one number needs no other shape."""

    def spell(new: Build, x: Tensor, c: Tensor) -> Tensor:
        return new.SUB(*((c, x) if flip else (x, c)), fused_activation_function="RELU6")

    check_rewrite(
        [raise_rank],
        lambda new, x: spell(new, x, new.const(normal(*constant))),
        lambda new, x: new.RESHAPE(
            spell(new, new.RESHAPE(x, [2, 1, 3, 5]), new.const(normal(*raised))), [2, 3, 5]
        ),
        x=(2, 3, 5),
    )


def test_operands_that_broadcast() -> None:
    check_rewrite(
        [raise_rank],
        lambda new, x, y: new.SUB(x, y),
        lambda new, x, y: new.RESHAPE(
            new.SUB(new.RESHAPE(x, [2, 1, 1, 5]), new.RESHAPE(y, [1, 1, 3, 5])), [2, 3, 5]
        ),
        x=(2, 1, 5),
        y=(1, 3, 5),
    )


@pytest.mark.parametrize("shape", RAISED)
@pytest.mark.parametrize("axis", [-1, "last"])
@pytest.mark.parametrize("kind", ["MEAN", "SUM", "REDUCE_MAX"])
def test_reductions(kind: str, axis: int | str, shape: tuple[int, ...]) -> None:
    last = len(shape) - 1 if axis == "last" else -1
    check_rewrite(
        [raise_rank_of_reduction],
        lambda new, x: getattr(new, kind)(x, [last], keep_dims=True),
        lambda new, x: new.RESHAPE(
            getattr(new, kind)(new.RESHAPE(x, RAISED[shape]), [3], keep_dims=True), [*shape[:-1], 1]
        ),
        x=shape,
    )


@pytest.mark.parametrize("shape", RAISED)
def test_softmax(shape: tuple[int, ...]) -> None:
    check_rewrite(
        [raise_rank_of_reduction],
        lambda new, x: new.SOFTMAX(x, beta=0.5),
        lambda new, x: new.RESHAPE(new.SOFTMAX(new.RESHAPE(x, RAISED[shape]), beta=0.5), list(shape)),
        x=shape,
    )


def test_not_of_rank_4() -> None:
    check_no_rewrite(
        [raise_rank], lambda new, x: new.TANH(x), "it is of rank 4, or not of floats", x=(2, 3, 4, 5)
    )
    check_no_rewrite(
        [raise_rank_of_reduction],
        lambda new, x: new.SOFTMAX(x, beta=1.0),
        "it is of rank 4, drops an axis, or is of a constant",
        x=(2, 3, 4, 5),
    )


def test_not_of_integers() -> None:
    check_no_rewrite(
        [raise_rank], lambda new, x: new.ADD(x, 3), "it is of rank 4, or not of floats", x=Ints((3,))
    )


def test_not_of_several_ranks() -> None:
    check_no_rewrite(
        [raise_rank],
        lambda new, x, y: new.ADD(x, y),
        "its runtime operands differ in rank, or there are none",
        x=(2, 3, 5),
        y=(5,),
    )


def test_not_without_the_reduced_axis() -> None:
    check_no_rewrite(
        [raise_rank_of_reduction],
        lambda new, x: new.MEAN(x, [2]),
        "it is of rank 4, drops an axis, or is of a constant",
        x=(2, 3, 5),
    )


@pytest.mark.parametrize("axes", [[0], [1, 2], [-2]])
def test_not_over_other_axes(axes: list[int]) -> None:
    check_no_rewrite(
        [raise_rank_of_reduction],
        lambda new, x: new.MEAN(x, axes, keep_dims=True),
        "another axis than the last is reduced",
        x=(2, 3, 5),
    )


def test_not_over_axes_that_are_not_known() -> None:
    def before(new: Build, x: Tensor, axes: Tensor) -> Tensor:
        y = new.MEAN(x, [2], keep_dims=True)
        y.maker.inputs = (x, axes)
        return y

    check_no_rewrite(
        [raise_rank_of_reduction],
        before,
        "another axis than the last is reduced",
        x=(2, 3, 5),
        axes=Ints((1,)),
    )


def test_not_of_constants_alone() -> None:
    check_no_rewrite(
        [raise_rank],
        lambda new, x: new.ADD(x, new.NEG([3.0])),
        "its runtime operands differ in rank, or there are none",
        x=(2, 3, 4, 5),
    )
    check_no_rewrite(
        [raise_rank_of_reduction],
        lambda new, x: new.ADD(x, new.SOFTMAX(new.const(normal(5)), beta=1.0)),
        "it is of rank 4, drops an axis, or is of a constant",
        x=(2, 3, 4, 5),
    )
