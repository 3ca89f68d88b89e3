"""Work done twice."""

from __future__ import annotations

import numpy as np
import pytest

from graph_rewrites.merge_duplicates import LARGEST, merge_duplicates
from msd.graph.ir import Build, Graph, Op, Quant, Tensor
from msd.graph.rewrite import apply
from tests.harness import Spell, check_rewrite, check_untouched, normal


def test_two_of_one_kind() -> None:
    def after(new: Build, x: Tensor) -> Tensor:
        y = new.TANH(x)
        return new.MUL(y, y)

    check_rewrite([merge_duplicates], lambda new, x: new.MUL(new.TANH(x), new.TANH(x)), after, x=(2, 3))


def test_chains_fall_together() -> None:
    def chain(new: Build, x: Tensor) -> Tensor:
        return new.RESHAPE(new.MUL(new.TRANSPOSE(x, [0, 2, 1]), 3.0), [2, 15])

    def after(new: Build, x: Tensor) -> Tensor:
        y = chain(new, x)
        return new.ADD(y, y)

    check_rewrite(
        [merge_duplicates], lambda new, x: new.ADD(chain(new, x), chain(new, x)), after, x=(2, 3, 5)
    )


def test_results_of_an_operator_with_several() -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        (a, b), (c, d) = new.SPLIT(1, x, 2), new.SPLIT(1, x, 2)
        return new.ADD(new.SUB(a, d), new.MUL(b, c))

    def after(new: Build, x: Tensor) -> Tensor:
        a, b = new.SPLIT(1, x, 2)
        return new.ADD(new.SUB(a, b), new.MUL(b, a))

    check_rewrite([merge_duplicates], before, after, x=(2, 6))


def test_an_output_keeps_its_own_operator() -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        return new.TANH(x), new.TANH(x)

    check_untouched([merge_duplicates], before, x=(2, 3))


def test_the_first_may_be_an_output() -> None:
    def after(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        y = new.TANH(x)
        return y, new.MUL(y, 2.0)

    check_rewrite(
        [merge_duplicates], lambda new, x: (new.TANH(x), new.MUL(new.TANH(x), 2.0)), after, x=(2, 3)
    )


def large(new: Build, x: Tensor, one: bool) -> Tensor:
    values = normal(LARGEST + 1)
    first = new.const(values)
    return new.MUL(new.ADD(x, first), new.ADD(x, first if one else new.const(values)))


def test_large_constants_are_compared_by_identity() -> None:
    def after(new: Build, x: Tensor) -> Tensor:
        y = new.ADD(x, new.const(normal(LARGEST + 1)))
        return new.MUL(y, y)

    check_rewrite([merge_duplicates], lambda new, x: large(new, x, one=True), after, x=(2, LARGEST + 1))
    check_untouched([merge_duplicates], lambda new, x: large(new, x, one=False), x=(2, LARGEST + 1))


@pytest.mark.parametrize(
    "spell",
    [
        lambda new, x: new.MUL(new.ADD(x, 1.0), new.ADD(x, 2.0)),
        lambda new, x: new.MUL(new.SUB(x, 1.0), new.SUB(1.0, x)),
        lambda new, x: new.MUL(new.ADD(x, 1.0), new.ADD(x, 1.0, fused_activation_function="RELU")),
        lambda new, x: new.MUL(new.ADD(x, [1.0]), new.ADD(x, [[1.0]])),
        lambda new, x: new.MUL(new.TANH(x), new.LOGISTIC(x)),
        lambda new, x: new.MUL(new.ADD(x, 1.0, version=2), new.ADD(x, 1.0)),
    ],
)
def test_not_what_differs(spell: Spell) -> None:
    check_untouched([merge_duplicates], spell, x=(2, 3))


def test_convolutions_of_other_weights_stay() -> None:
    def layer(new: Build, x: Tensor, seed: int) -> Tensor:
        return new.FULLY_CONNECTED(x, new.const(normal(5, 4, seed=seed)), new.const(normal(5)))

    def before(new: Build, x: Tensor) -> Tensor:
        return new.MUL(layer(new, x, 1), layer(new, x, 2))

    check_untouched([merge_duplicates], before, x=(3, 4))


def quantiser(x: Tensor, scale: float) -> Tensor:
    y = Tensor(f"q{scale}", x.shape, "INT8", quant=Quant(np.float32([scale]), np.int64([0])))
    Op("QUANTIZE", [x], [y])
    return y


def test_results_quantised_differently_are_not_one() -> None:
    x = Tensor("x", (2, 3))
    a, b = quantiser(x, 0.5), quantiser(x, 0.25)
    new = Build()
    y = new.ADD(new.DEQUANTIZE(a), new.DEQUANTIZE(b))
    graph = Graph([x], [y], [a.maker, b.maker, *new.ops])
    assert not apply(graph, [merge_duplicates]).fired


def test_constants_quantised_differently_are_not_one() -> None:
    new, x = Build(), Tensor("x", (3,))
    values = new.const(np.int8([1, 2, 3]))
    twin = Tensor("twin", (3,), "INT8", values.data)
    for t, scale in ((values, 0.5), (twin, 0.25)):
        t.quant = Quant(np.float32([scale]), np.int64([0]))
    graph = Graph([x], [new.MUL(x, new.ADD(new.DEQUANTIZE(values), new.DEQUANTIZE(twin)))], new.ops)
    assert not apply(graph, [merge_duplicates]).fired


@pytest.mark.parametrize("kind", ["CUSTOM:Dice", "RANDOM_UNIFORM"])
def test_operators_that_may_do_more_than_they_say_stay(kind: str) -> None:
    x = Tensor("x", (2,))
    a, b = Tensor("a", (2,)), Tensor("b", (2,))
    rolls = [Op(kind, [x], [a]), Op(kind, [x], [b])]
    new = Build()
    graph = Graph([x], [new.ADD(a, b)], [*rolls, *new.ops])
    assert not apply(graph, [merge_duplicates]).fired


def test_operators_on_a_variable_stay() -> None:
    x, state = Tensor("x", (2,)), Tensor("state", (2,))
    state.is_variable = True
    new = Build()
    graph = Graph([x], [new.MUL(new.ADD(x, state), new.ADD(x, state))], new.ops)
    assert not apply(graph, [merge_duplicates]).fired
