"""Clipped GELU."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
import pytest

from graph_rewrites.clip_gelu import clip_gelu, clip_gelu_slope
from msd.graph.ir import Build, Graph, Tensor
from msd.graph.rewrite import Target, apply
from msd.graph.rewrite.spelling import spelling_of
from tests.half import in_half, overflowed
from tests.harness import build, check_no_rewrite, check_rewrite, check_untouched, evaluate

GRID = np.concatenate([np.linspace(-60, 60, 2401), [-10, 10, -9.999, 10.001, 0]]).astype(np.float32)


def clipped(clip: float):  # type: ignore[no-untyped-def]
    a = 2 * sqrt(2 / pi)

    def spell(new: Build, x: Tensor) -> Tensor:
        c = new.MUL(x, 1 / clip, fused_activation_function="RELU_N1_TO_1")
        slope = new.ADD(new.MUL(new.MUL(c, c), 0.044715 * a * clip**3), a * clip)
        return new.MUL(x, new.LOGISTIC(new.MUL(c, slope)))

    return spell


@pytest.mark.parametrize("clip", [7.0, 10.0, 15.5])
def test_tanh_gelu_far_beyond_the_clip(clip: float) -> None:
    check_rewrite(
        [clip_gelu],
        lambda new, x: new.GELU(x, approximate=True),
        clipped(clip),
        target=Target(gelu_clip=clip),
        feeds={"x": GRID.reshape(2, 1203)},
        tolerance=1e-6,
        x=(2, 1203),
    )


def test_exact_gelu_to_the_error_of_the_tanh_form() -> None:
    """The tanh form of arXiv 1606.08415 is off by at most 4.8e-4, the largest difference seen."""
    check_rewrite(
        [clip_gelu],
        lambda new, x: new.GELU(x, approximate=False),
        clipped(10.0),
        feeds={"x": np.linspace(-9, 9, 600, dtype=np.float32).reshape(2, 3, 100)},
        tolerance=5e-4 / 9,
        x=(2, 3, 100),
    )


def test_a_small_clip_changes_numbers_only_beyond_it() -> None:
    """With M = 2, GELU(x) is x * sigmoid(u(2)) beyond: the clip is a real one, not decoration."""
    graph = build(lambda new, x: new.GELU(x, approximate=True), x=(len(GRID),))
    want = evaluate(graph, {"x": GRID})[0]
    apply(graph, [clip_gelu], Target(gelu_clip=2.0))
    got = evaluate(graph, {"x": GRID})[0]
    inside = np.abs(GRID) <= 2
    np.testing.assert_allclose(got[inside], want[inside], atol=1e-6)
    assert np.abs(got - want)[~inside].max() > 0.1


def test_half_precision_holds_it_where_the_cube_overflows() -> None:
    x = np.linspace(-1000, 1000, 4001).astype(np.float16).astype(np.float32)
    with np.errstate(over="ignore"):
        assert np.isinf(x.astype(np.float16) ** 3).any()
    graph = build(lambda new, x: new.GELU(x, approximate=True), x=x.shape)
    want = evaluate(graph, {"x": x})[0]
    apply(graph, [clip_gelu])
    results = in_half(graph, {"x": x})
    assert overflowed(results) == []
    np.testing.assert_allclose(results[graph.outputs[0]], want, atol=0.02, rtol=2e-3)


def test_not_of_other_types() -> None:
    new, x = Build(), Tensor("x", (2, 3), "FLOAT16")
    graph = Graph([x], [new.GELU(x)], new.ops)
    check_no_rewrite([clip_gelu], graph, because="is not clipped")


SLOPE = spelling_of("", {"gelu": "clipped_slope"})


def clipped_slope(clip: float):  # type: ignore[no-untyped-def]
    a = 2 * sqrt(2 / pi)

    def spell(new: Build, x: Tensor) -> Tensor:
        c = new.MUL(x, 1 / clip, fused_activation_function="RELU_N1_TO_1")
        slope = new.ADD(new.MUL(new.MUL(c, c), 0.044715 * a * clip**2), a)
        return new.MUL(x, new.LOGISTIC(new.MUL(x, slope)))

    return spell


@pytest.mark.parametrize("clip", [7.0, 10.0, 15.5])
def test_a_clipped_slope_far_beyond_the_clip(clip: float) -> None:
    check_rewrite(
        [clip_gelu_slope],
        lambda new, x: new.GELU(x, approximate=True),
        clipped_slope(clip),
        target=Target(gelu_clip=clip, spelling=SLOPE),
        feeds={"x": GRID.reshape(2, 1203)},
        tolerance=1e-6,
        x=(2, 1203),
    )


def test_half_precision_holds_the_clipped_slope() -> None:
    """Up to 7500; beyond, the sigmoid's argument is infinite, and the sigmoid what it is there: 0 or 1."""
    x = np.linspace(-7400, 7400, 4001).astype(np.float16).astype(np.float32)
    graph = build(lambda new, x: new.GELU(x, approximate=True), x=x.shape)
    want = evaluate(graph, {"x": x})[0]
    apply(graph, [clip_gelu_slope], Target(spelling=SLOPE))
    results = in_half(graph, {"x": x})
    assert overflowed(results) == []
    np.testing.assert_allclose(results[graph.outputs[0]], want, atol=0.02, rtol=2e-3)


def test_a_slope_of_other_types_stays() -> None:
    new, x = Build(), Tensor("x", (2, 3), "FLOAT16")
    graph = Graph([x], [new.GELU(x)], new.ops)
    check_no_rewrite([clip_gelu_slope], graph, because="is not clipped", target=Target(spelling=SLOPE))


def test_a_builtin_gelu_stays() -> None:
    target = Target(spelling=spelling_of("", {"gelu": "builtin"}))
    check_untouched([clip_gelu, clip_gelu_slope], lambda new, x: new.GELU(x), target=target, x=(2, 3))
