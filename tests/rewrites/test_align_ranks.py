"""Operands of one rank."""

from __future__ import annotations

import numpy as np
import pytest

from graph_rewrites.align_ranks import BINARY, align_ranks
from msd.graph.ir import Build, Tensor
from tests.harness import Ints, check_no_rewrite, check_rewrite, normal


@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize("first", ["wide", "narrow"])
def test_the_operand_of_lower_rank_gets_ones_in_front(kind: str, first: str) -> None:
    def spell(new: Build, a: Tensor, b: Tensor) -> Tensor:
        return getattr(new, kind)(*((a, b) if first == "wide" else (b, a)))

    check_rewrite(
        [align_ranks],
        lambda new, x, y: spell(new, x, y),
        lambda new, x, y: spell(new, x, new.RESHAPE(y, [1, 1, 4, 5])),
        feeds={"x": 1 + np.abs(normal(2, 3, 4, 5)), "y": 1 + np.abs(normal(4, 5, seed=2))},
        x=(2, 3, 4, 5),
        y=(4, 5),
    )


@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL", "DIV"])
def test_a_fused_activation_stays(kind: str) -> None:
    def spell(new: Build, x: Tensor, y: Tensor) -> Tensor:
        return getattr(new, kind)(x, y, fused_activation_function="RELU6")

    check_rewrite(
        [align_ranks],
        lambda new, x, y: spell(new, x, y),
        lambda new, x, y: spell(new, x, new.RESHAPE(y, [1, 1, 5])),
        x=(2, 3, 5),
        y=(5,),
    )


@pytest.mark.parametrize("shape", [(), (5,)])
def test_a_scalar_or_vector_that_is_constant_stays(shape: tuple[int, ...]) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        return new.ADD(x, new.const(normal(*shape)))

    check_no_rewrite([align_ranks], before, because="its operands have the same rank", x=(2, 3, 4, 5))


@pytest.mark.parametrize("shape", [(4, 5), (3, 1, 5)])
def test_another_constant_gets_ones_in_front(shape: tuple[int, ...]) -> None:
    """TensorFlow Lite's delegate refuses it, as it does a causal mask of rank 2."""
    whole = (1,) * (4 - len(shape)) + shape
    check_rewrite(
        [align_ranks],
        lambda new, x: new.ADD(new.const(normal(*shape)), x),
        lambda new, x: new.ADD(new.const(normal(*shape).reshape(whole)), x),
        x=(2, 3, 4, 5),
    )


def test_integers_too() -> None:
    check_rewrite(
        [align_ranks],
        lambda new, x, y: new.ADD(x, y),
        lambda new, x, y: new.ADD(x, new.RESHAPE(y, [1, 3])),
        x=Ints((2, 3)),
        y=Ints((3,)),
    )
