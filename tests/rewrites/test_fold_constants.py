"""What depends only on constants."""

from __future__ import annotations

import numpy as np
import pytest

from graph_rewrites.fold_constants import fold_arithmetic, fold_lookup, fold_reshape, fold_transpose
from msd.graph.ir import Build, Tensor
from tests.harness import check_no_rewrite, check_rewrite, normal, quantised


def test_transpose() -> None:
    check_rewrite(
        [fold_transpose],
        lambda new, x: new.ADD(x, new.TRANSPOSE(new.const(normal(5, 2, 3)), [1, 2, 0])),
        lambda new, x: new.ADD(x, new.const(normal(2, 3, 5))),
        x=(2, 3, 5),
    )


def test_reshape() -> None:
    check_rewrite(
        [fold_reshape],
        lambda new, x: new.ADD(x, new.RESHAPE(new.const(normal(10, 3)), [2, -1, 5])),
        lambda new, x: new.ADD(x, new.const(normal(2, 3, 5))),
        x=(2, 3, 5),
    )


@pytest.mark.parametrize("ids", [[[4, 0, 0]], [[1], [2], [4]]])
def test_lookup(ids: list[list[int]]) -> None:
    check_rewrite(
        [fold_lookup],
        lambda new, x: new.ADD(x, new.GATHER(new.const(normal(5, 2)), ids)),
        lambda new, x: new.ADD(x, new.const(normal(5, 2)[np.array(ids)])),
        x=(3, 3, 2),
    )


@pytest.mark.parametrize("ids", [[0, -1, 2], [0, 5, 2]])
def test_not_rows_that_are_not_there(ids: list[int]) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        return new.ADD(x, new.GATHER(new.const(normal(5, 2)), ids))

    check_no_rewrite([fold_lookup], before, because="an index is out of range", x=(3, 2))


@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize(
    ("left", "right"), [((3, 5), (3, 5)), ((3, 1), (5,)), ((), (3, 5)), ((2, 1, 5), (3, 1))]
)
def test_arithmetic(kind: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        return new.MUL(x, getattr(new, kind)(new.const(normal(*left)), new.const(normal(*right, seed=2))))

    shape = np.broadcast_shapes(left, right)
    check_rewrite(
        [fold_arithmetic], before, lambda new, x: new.MUL(x, new.const(normal(*shape))), x=(2, 3, 5)
    )


def test_chains_fold_to_one_constant() -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        table = new.RESHAPE(new.TRANSPOSE(new.const(normal(5, 6)), [1, 0]), [2, 3, 5])
        return new.ADD(x, new.MUL(table, new.const(normal(5))))

    check_rewrite(
        [fold_transpose, fold_reshape, fold_arithmetic],
        before,
        lambda new, x: new.ADD(x, new.const(normal(2, 3, 5))),
        x=(2, 3, 5),
    )


def test_nothing_is_loaded() -> None:
    """The constant's values are wanted only when a file is written."""
    from msd.graph.ir.weights import Weights
    from msd.graph.rewrite import apply
    from tests.harness import build

    def load() -> np.ndarray:
        raise AssertionError("loaded")

    weights = Weights((5, 6), np.dtype("float32"), load, "checkpoint")
    graph = build(
        lambda new, x: new.ADD(x, new.RESHAPE(new.TRANSPOSE(new.const(weights), [1, 0]), [2, 3, 5])),
        x=(2, 3, 5),
    )
    assert apply(graph, [fold_transpose, fold_reshape]).fired == 2


@pytest.mark.parametrize(
    ("rule", "spell"),
    [
        (fold_transpose, lambda new: new.TRANSPOSE(quantised(5, 3), [1, 0])),
        (fold_reshape, lambda new: new.RESHAPE(quantised(5, 3), [3, 5])),
        (fold_lookup, lambda new: new.GATHER(quantised(7, 5), [0, 4, 6])),
    ],
)
def test_not_a_quantised_constant(rule, spell) -> None:  # type: ignore[no-untyped-def]
    check_no_rewrite(
        [rule], lambda new, x: new.ADD(x, spell(new)), because="the constant is quantised", x=(3, 5)
    )


@pytest.mark.parametrize(
    ("spell", "because"),
    [
        (lambda new, x: new.ADD(x, new.const(normal(5))), "an operand is not constant"),
        (lambda new, x: new.SUB(new.const(normal(5)), x), "an operand is not constant"),
        (
            lambda new, x: new.MUL(
                x, new.SUB(new.const(normal(5)), new.const(normal(3, 1)), fused_activation_function="RELU")
            ),
            "an activation is attached",
        ),
        (
            lambda new, x: new.MUL(x, new.CAST(new.ADD([1, 2, 3, 4, 5], [7]), out_data_type="FLOAT32")),
            "INT32 is not folded",
        ),
    ],
)
def test_not_arithmetic_that_is_more(spell, because: str) -> None:  # type: ignore[no-untyped-def]
    check_no_rewrite([fold_arithmetic], spell, because=because, x=(3, 5))


def test_not_when_an_output_would_be_a_constant() -> None:
    check_no_rewrite(
        [fold_transpose],
        lambda new, x: (new.TANH(x), new.TRANSPOSE(new.const(normal(2, 3)), [1, 0])),
        because="a graph output would become another name",
        x=(2,),
    )
