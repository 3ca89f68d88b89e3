"""Attention scores scaled before the product, and in the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_rewrites.scale_query import (
    fold_scale_into_conv,
    fold_scale_into_dense,
    scale_before_reshape,
    scale_before_transpose,
    scale_query,
)
from msd.graph.ir import Build, Tensor
from msd.graph.rewrite import Rewrite, apply
from tests.half import in_half, overflowed
from tests.harness import (
    Ints,
    Spell,
    build,
    check_no_rewrite,
    check_rewrite,
    check_untouched,
    conv,
    dense,
    evaluate,
    feeds_for,
    normal,
    quantised,
)

FACTORS: list[Any] = [0.125, [0.125], [[[[-3.0]]]]]


def times(new: Build, x: Tensor, factor: Any, flip: bool) -> Tensor:
    return new.MUL(factor, x) if flip else new.MUL(x, factor)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("adj", [False, True])
def test_scores(factor: Any, flip: bool, adj: bool) -> None:
    check_rewrite(
        [scale_query],
        lambda new, q, k: times(new, new.BATCH_MATMUL(q, k, adj_y=adj), factor, flip),
        lambda new, q, k: new.BATCH_MATMUL(new.MUL(q, 0.125), k, adj_y=adj),
        q=(2, 3, 4, 5),
        k=(2, 3, 6, 5) if adj else (2, 3, 5, 6),
    )


def test_float16_then_holds_the_scores() -> None:
    def before(new: Build, q: Tensor, k: Tensor) -> Tensor:
        return new.SOFTMAX(new.MUL(new.BATCH_MATMUL(q, k), 0.01), beta=1.0)

    graph = build(before, q=(1, 1, 2, 64), k=(1, 1, 64, 3))
    feeds = {name: 400 * np.sign(x) for name, x in feeds_for(graph).items()}
    feeds["q"][...] = 30
    feeds["k"][...] = np.float32([200, 40, 40])
    want = evaluate(graph, feeds)[0]
    assert overflowed(in_half(graph, feeds))
    apply(graph, [scale_query])
    results = in_half(graph, feeds)
    assert overflowed(results) == []
    np.testing.assert_allclose(results[graph.outputs[0]], want, atol=1e-3)


MADE: list[Spell] = [
    lambda new, x: dense(new, x, 20),
    lambda new, x: new.BATCH_MATMUL(x, new.TANH(x), adj_y=True),
    lambda new, x: new.RESHAPE(new.TRANSPOSE(dense(new, x, 20), [0, 2, 1]), [2, 3, 20]),
]
"""What takes a factor in, or hands it on to what does."""


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("spell", MADE[:2])
def test_reshaped(factor: Any, flip: bool, spell: Any) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        y = spell(new, x)
        return times(new, new.RESHAPE(y, [2, 3, 1, y.shape[2]]), factor, flip)

    def after(new: Build, x: Tensor) -> Tensor:
        y = spell(new, x)
        return new.RESHAPE(new.MUL(y, 0.125), [2, 3, 1, y.shape[2]])

    check_rewrite([scale_before_reshape], before, after, x=(2, 3, 8))


@pytest.mark.parametrize("factor", FACTORS[:2])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("spell", MADE)
def test_transposed(factor: Any, flip: bool, spell: Any) -> None:
    check_rewrite(
        [scale_before_transpose],
        lambda new, x: times(new, new.TRANSPOSE(spell(new, x), [2, 0, 1]), factor, flip),
        lambda new, x: new.TRANSPOSE(new.MUL(spell(new, x), 0.125), [2, 0, 1]),
        x=(2, 3, 8),
    )


def test_integers_stay_integers() -> None:
    def scores(new: Build, x: Tensor) -> Tensor:
        return new.BATCH_MATMUL(x, new.ADD(x, 1))

    graph = build(lambda new, x: new.MUL(new.RESHAPE(scores(new, x), [4]), 3), x=Ints((2, 2)))
    assert apply(graph, [scale_before_reshape]).fired == 1
    assert [str(t.dtype) for o in graph.ops for t in o.operands] == ["INT32"] * 8


@pytest.mark.parametrize(
    "spell",
    [
        lambda new, x: x,
        lambda new, x: new.TANH(x),
        lambda new, x: dense(new, x, 3, fused_activation_function="RELU"),
        lambda new, x: new.RESHAPE(new.TANH(x), [1, 3, 3]),
    ],
)
def test_not_where_nothing_takes_it_in(spell: Any) -> None:
    because = "the factor is not one number, or no layer before it absorbs it"

    def reshaped(new: Build, x: Tensor) -> Tensor:
        return new.MUL(new.RESHAPE(spell(new, x), [9]), 0.5)

    def transposed(new: Build, x: Tensor) -> Tensor:
        return new.MUL(new.TRANSPOSE(new.RESHAPE(spell(new, x), [3, 3]), [1, 0]), 0.5)

    check_no_rewrite([scale_before_reshape], reshaped, because, x=(3, 3))
    check_no_rewrite([scale_before_transpose], transposed, because, x=(3, 3))


def test_not_past_what_is_also_used() -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        y = dense(new, x, 3)
        return new.MUL(new.RESHAPE(y, [9]), 0.5), new.TANH(y)

    because = "the factor is not one number, or no layer before it absorbs it"
    check_no_rewrite([scale_before_reshape], before, because, x=(3, 3))


@pytest.mark.parametrize("factor", [0.125, [-3.0]])
@pytest.mark.parametrize("flip", [False, True])
def test_layers(factor: Any, flip: bool) -> None:
    check_rewrite(
        [fold_scale_into_dense],
        lambda new, x: times(new, dense(new, x, 7), factor, flip),
        lambda new, x: dense(new, x, 7),
        x=(2, 3, 5),
    )
    check_rewrite(
        [fold_scale_into_conv],
        lambda new, x: times(new, conv(new, x, 7, (3, 2), padding="VALID", stride_h=2), factor, flip),
        lambda new, x: conv(new, x, 7, (3, 2), padding="VALID", stride_h=2),
        x=(2, 7, 6, 5),
    )


def test_through_attention_into_the_layer() -> None:
    """The factor walks from the scores through transpose and reshape into the weights, and vanishes."""

    def spell(new: Build, x: Tensor, k: Tensor, factor: float | None) -> Tensor:
        q = new.TRANSPOSE(new.RESHAPE(dense(new, x, 12), [2, 5, 3, 4]), [0, 2, 1, 3])
        scores = new.BATCH_MATMUL(q, k)
        return scores if factor is None else new.MUL(scores, factor)

    check_rewrite(
        [scale_query, scale_before_transpose, scale_before_reshape, fold_scale_into_dense],
        lambda new, x, k: spell(new, x, k, 0.5),
        lambda new, x, k: spell(new, x, k, None),
        x=(2, 5, 7),
        k=(2, 3, 4, 6),
    )


def scores(new: Build, x: Tensor) -> Tensor:
    return new.BATCH_MATMUL(x, new.TANH(x))


PLACES: list[tuple[Rewrite, Spell]] = [
    (scale_query, scores),
    (scale_before_reshape, lambda new, x: new.RESHAPE(dense(new, x, 3), [3, 3])),
    (scale_before_transpose, lambda new, x: new.TRANSPOSE(dense(new, x, 3), [1, 0])),
    (fold_scale_into_dense, lambda new, x: dense(new, x, 3)),
]


@pytest.mark.parametrize(("rule", "spell"), PLACES)
@pytest.mark.parametrize("shape", [(3,), (3, 1), (1, 1, 1)])
def test_not_when_the_factor_is_not_one_number(rule: Rewrite, spell: Any, shape: tuple[int, ...]) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        return new.MUL(spell(new, x), new.const(normal(*shape)))

    check_no_rewrite([rule], before, because="the factor is not one number", x=(3, 3))


@pytest.mark.parametrize(("rule", "spell"), PLACES)
def test_not_with_an_activation(rule: Rewrite, spell: Any) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        return new.MUL(spell(new, x), -0.5, fused_activation_function="RELU")

    check_untouched([rule], before, x=(3, 3))


@pytest.mark.parametrize(("rule", "spell"), PLACES)
def test_not_when_the_unscaled_result_is_used_too(rule: Rewrite, spell: Any) -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        y = spell(new, x)
        return new.MUL(y, 0.5), y

    check_no_rewrite([rule], before, because="is also used elsewhere", x=(3, 3))


def test_not_per_channel_of_a_convolution() -> None:
    because = "the factor is not one number, or the layer is quantised"

    def before(new: Build, x: Tensor) -> Tensor:
        return new.MUL(conv(new, x, 3), new.const(normal(3)))

    check_no_rewrite([fold_scale_into_conv], before, because=because, x=(1, 3, 4, 5))


def test_not_into_quantised_weights() -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        return new.MUL(new.FULLY_CONNECTED(x, quantised(7, 5), new.const(normal(7))), 0.5)

    because = "the factor is not one number, or the layer is quantised"
    check_no_rewrite([fold_scale_into_dense], before, because=because, x=(2, 5))
