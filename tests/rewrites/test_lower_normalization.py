"""Group and layer normalisation, held against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from graph_rewrites.lower_normalization import (
    lower_group_norm,
    lower_layer_norm,
    lower_plain_layer_norm,
)
from msd.graph.ir import Build, Tensor
from msd.graph.ir.weights import Array
from msd.graph.prediction.fusion import fused
from msd.graph.prediction.registry import delegates
from msd.graph.rewrite import Target, apply
from msd.graph.rewrite.spelling import FORMS, spelling_of
from tests.half import in_half, overflowed
from tests.harness import Spell, build, check_no_rewrite, evaluate, interface, normal


def normalised(
    new: Build, x: Tensor, axes: list[int], gamma: Any, beta: Any, eps: Any, flip: bool, axes2: Any = None
) -> Tensor:
    """As keras.ops spells it, or with `flip` in the other operand order. `axes2` are the variance's."""

    def add(a: Any, b: Any) -> Tensor:
        return new.ADD(b, a) if flip else new.ADD(a, b)

    def mul(a: Any, b: Any) -> Tensor:
        return new.MUL(b, a) if flip else new.MUL(a, b)

    mean = new.MEAN(x, axes, keep_dims=True)
    difference = new.SQUARED_DIFFERENCE(mean, x) if flip else new.SQUARED_DIFFERENCE(x, mean)
    variance = new.MEAN(difference, axes2 or axes, keep_dims=True)
    scale = mul(new.RSQRT(add(variance, eps)), gamma)
    return add(mul(x, scale), add(mul(new.NEG(mean), scale), beta))


def group_norm(groups: int, gamma: Array, beta: Array, eps: float = 1e-5, flip: bool = False) -> Spell:
    def spell(new: Build, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        inner = (groups, channels // groups)
        grouped = new.RESHAPE(x, [batch, height, width, *inner])
        constants = (new.const(c.reshape(1, 1, 1, *inner)) for c in (gamma, beta))
        normal = normalised(new, grouped, [1, 2, 4], *constants, eps, flip)
        return new.RESHAPE(normal, list(x.shape))

    return spell


def layer_norm(gamma: Array, beta: Array, eps: float = 1e-5, flip: bool = False) -> Spell:
    def spell(new: Build, x: Tensor) -> Tensor:
        axes = [-1] if flip else [len(x.shape) - 1]
        return normalised(new, x, axes, new.const(gamma), new.const(beta), eps, flip)

    return spell


def torch_group_norm(x: Array, groups: int, gamma: Array, beta: Array, eps: float) -> Array:
    first, *constants = (torch.from_numpy(a.astype(np.float64)) for a in (x, gamma, beta))
    normal = torch.nn.functional.group_norm(first.permute(0, 3, 1, 2), groups, *constants, eps)
    return np.asarray(normal.permute(0, 2, 3, 1).numpy())


def torch_layer_norm(x: Array, gamma: Array, beta: Array, eps: float) -> Array:
    first, *constants = (torch.from_numpy(a.astype(np.float64)) for a in (x, gamma, beta))
    return np.asarray(torch.nn.functional.layer_norm(first, (x.shape[-1],), *constants, eps).numpy())


def lowered(rule: Any, spell: Spell, x: Array, **forms: str) -> Array:
    """Return the numbers after the rule fired once; it leaves no rank above 4 and the interface as it was."""
    graph, target = build(spell, x=x.shape), Target(spelling=spelling_of("", forms))
    ports = interface(graph)
    assert apply(graph, [rule], target).fired == 1
    assert max(len(t.shape) for o in graph.ops for t in o.outputs) <= 4
    assert interface(graph) == ports
    assert not apply(graph, [rule], target).fired
    return evaluate(graph, {"x": x})[0]


def constants(channels: int) -> tuple[Array, Array]:
    return 1 + 0.5 * normal(channels, seed=3), normal(channels, seed=4)


@pytest.mark.parametrize(("groups", "channels"), [(1, 7), (1, 12), (4, 12), (4, 20), (32, 96), (32, 32)])
@pytest.mark.parametrize("flip", [False, True])
def test_group_norm_equals_torch(groups: int, channels: int, flip: bool) -> None:
    x, (gamma, beta) = normal(2, 3, 5, channels) * 3 + 1, constants(channels)
    got = lowered(lower_group_norm, group_norm(groups, gamma, beta, 1e-5, flip), x)
    np.testing.assert_allclose(got, torch_group_norm(x, groups, gamma, beta, 1e-5), atol=1e-5)


@pytest.mark.parametrize("shape", [(7,), (2, 7), (2, 3, 10), (2, 3, 5, 4)])
@pytest.mark.parametrize("flip", [False, True])
def test_layer_norm_equals_torch(shape: tuple[int, ...], flip: bool) -> None:
    x, (gamma, beta) = normal(*shape) * 3 + 1, constants(shape[-1])
    got = lowered(lower_layer_norm, layer_norm(gamma, beta, 1e-5, flip), x)
    np.testing.assert_allclose(got, torch_layer_norm(x, gamma, beta, 1e-5), atol=1e-5)


@pytest.mark.parametrize("eps", [1e-6, 1e-5, 1e-3])
@pytest.mark.parametrize("spread", [1e-4, 1e-2])
def test_tiny_variance(eps: float, spread: float) -> None:
    """Epsilon decides here, so it must arrive unharmed."""
    x, (gamma, beta) = normal(2, 3, 5, 12) * spread, constants(12)
    got = lowered(lower_group_norm, group_norm(4, gamma, beta, eps), x)
    np.testing.assert_allclose(got, torch_group_norm(x, 4, gamma, beta, eps), atol=1e-5)
    got = lowered(lower_layer_norm, layer_norm(gamma, beta, eps), x)
    np.testing.assert_allclose(got, torch_layer_norm(x, gamma, beta, eps), atol=1e-5)


def test_large_offset() -> None:
    """At 1000, float32 numbers are 6e-5 apart; the result is closer to the truth than Keras' form is."""
    x, (gamma, beta) = 1000 + normal(2, 16, 15, 12), constants(12)
    for rule, spell, want in (
        (lower_group_norm, group_norm(4, gamma, beta), torch_group_norm(x, 4, gamma, beta, 1e-5)),
        (lower_layer_norm, layer_norm(gamma, beta), torch_layer_norm(x, gamma, beta, 1e-5)),
    ):
        before = np.abs(evaluate(build(spell, x=x.shape), {"x": x})[0] - want).max()
        after = np.abs(lowered(rule, spell, x) - want).max()
        assert after < before < 2e-3


@pytest.mark.parametrize("kind", ["group", "layer"])
def test_float16_holds_values_of_a_thousand(kind: str) -> None:
    """Before, squares overflow and everything but beta is lost; afterwards it is as exact as float16 is."""
    x, (gamma, beta) = np.clip(600 * normal(2, 8, 6, 32), -1000, 1000), constants(32)
    rule, spell, want = {
        "group": (lower_group_norm, group_norm(4, gamma, beta), torch_group_norm(x, 4, gamma, beta, 1e-5)),
        "layer": (lower_layer_norm, layer_norm(gamma, beta), torch_layer_norm(x, gamma, beta, 1e-5)),
    }[kind]
    graph = build(spell, x=x.shape)
    before = in_half(graph, {"x": x})
    assert "SQUARED_DIFFERENCE" in overflowed(before)
    assert np.abs(before[graph.outputs[0]] - want).max() > 1
    apply(graph, [rule])
    after = in_half(graph, {"x": x})
    assert overflowed(after) == []
    np.testing.assert_allclose(after[graph.outputs[0]], want, atol=0.01)


@pytest.mark.parametrize("eps", [1e-6, 1e-5])
def test_float16_survives_a_group_without_variance(eps: float) -> None:
    graph = build(group_norm(4, *constants(12), eps), x=(1, 3, 5, 12))
    apply(graph, [lower_group_norm])
    results = in_half(graph, {"x": np.full((1, 3, 5, 12), 3, np.float32)})
    assert overflowed(results) == []
    np.testing.assert_allclose(results[graph.outputs[0]][0, 0, 0], constants(12)[1], atol=1e-3)


def grouped(
    shape: list[int], axes: list[int], constant: tuple[int, ...], eps: Any = 1e-5, axes2: Any = None
) -> Spell:
    def spell(new: Build, x: Tensor) -> Tensor:
        gamma, beta = new.const(normal(*constant)), new.const(normal(*constant))
        middle = normalised(new, new.RESHAPE(x, shape), axes, gamma, beta, eps, False, axes2)
        return new.RESHAPE(middle, list(x.shape))

    return spell


PER_GROUP = np.full((1, 1, 1, 4, 1), 1e-5, np.float32)
OVER_PLACES = "the mean is not over height, width and the channels of a group"
NOT_CONSTANTS = "gamma or beta is not one number per channel, or epsilon is not one number"


@pytest.mark.parametrize(
    ("spell", "because"),
    [
        (grouped([2, 5, 4, 3], [1, 3], (1, 1, 4, 3)), "is not a channels-last image"),
        (grouped([2, 5, 1, 4, 3], [1, 2, 4], (1, 1, 1, 4, 3)), "is not a channels-last image"),
        (grouped([2, 1, 5, 2, 3, 2], [1, 2, 4], (2, 3, 2)), "is not a channels-last image"),
        (grouped([2, 1, 5, 3, 4], [1, 2, 3], (1, 1, 1, 3, 4)), OVER_PLACES),
        (grouped([2, 1, 5, 4, 3], [1, 2, 4], (1, 1, 1, 4, 3), 1e-5, [1, 2]), OVER_PLACES),
        (grouped([2, 1, 5, 4, 3], [1, 4], (1, 1, 1, 4, 3), 1e-5, [1, 2, 4]), OVER_PLACES),
        (grouped([2, 1, 5, 4, 3], [1, 2], (1, 1, 1, 4, 3)), OVER_PLACES),
        (grouped([2, 1, 5, 4, 3], [1, 2, 4], (1,)), NOT_CONSTANTS),
        (grouped([2, 1, 5, 4, 3], [1, 2, 4], (5, 4, 3)), NOT_CONSTANTS),
        (grouped([2, 1, 5, 4, 3], [1, 2, 4], (1, 1, 1, 4, 3), PER_GROUP), NOT_CONSTANTS),
    ],
)
def test_not_another_grouping(spell: Spell, because: str) -> None:
    check_no_rewrite([lower_group_norm], spell, because=because, x=(2, 1, 5, 12))


@pytest.mark.parametrize(
    ("axes", "constant", "eps", "because"),
    [
        ([1], (5,), 1e-5, "the mean is not over the last axis"),
        ([1, 2], (5,), 1e-5, "the mean is not over the last axis"),
        ([2], (), 1e-5, NOT_CONSTANTS),
        ([2], (5, 1), 1e-5, NOT_CONSTANTS),
        ([2], (1, 1, 1, 5), 1e-5, NOT_CONSTANTS),
        ([2], (5,), np.full((5, 1), 1e-5, np.float32), NOT_CONSTANTS),
    ],
)
def test_not_another_layer_norm(axes: list[int], constant: tuple[int, ...], eps: Any, because: str) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        gamma, beta = new.const(normal(*constant)), new.const(normal(*constant))
        return normalised(new, x, axes, gamma, beta, eps, False)

    check_no_rewrite([lower_layer_norm], before, because=because, x=(2, 5, 5))


def test_not_a_grouping_of_rank_3() -> None:
    spell = grouped([2, 5, 12, 1, 1], [1, 2, 4], (1, 1, 1, 1, 1))
    check_no_rewrite([lower_group_norm], spell, because="is not a channels-last image", x=(2, 5, 12))


@pytest.mark.parametrize(("axes", "axes2"), [([1], [2]), ([2], [1])])
def test_not_a_variance_over_another_axis(axes: list[int], axes2: list[int]) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        gamma, beta = new.const(normal(5)), new.const(normal(5))
        return normalised(new, x, axes, gamma, beta, 1e-5, False, axes2)

    check_no_rewrite([lower_layer_norm], before, because="the mean is not over the last axis", x=(2, 5, 5))


def test_not_when_the_mean_is_also_an_output() -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        y = normalised(new, x, [2], new.const(normal(5)), new.const(normal(5)), 1e-5, False)
        return y, new.ops[0].outputs[0]

    check_no_rewrite([lower_layer_norm], before, because="the inner MEAN is also used elsewhere", x=(2, 3, 5))


MEANS = pytest.mark.parametrize("mean", FORMS["group_mean"])
VARIANCES = pytest.mark.parametrize("variance", FORMS["group_variance"])


@MEANS
@VARIANCES
@pytest.mark.parametrize(
    "shape", [(2, 3, 5, 12), (1, 16, 24, 8), (2, 1, 1, 12), (1, 11, 26, 20), (1, 64, 6, 4)], ids=str
)
def test_every_form_of_group_norm_equals_torch(mean: str, variance: str, shape: tuple[int, ...]) -> None:
    """Sides that eight divides, that are prime, that are one."""
    x, (gamma, beta) = normal(*shape) * 3 + 1, constants(shape[3])
    forms = {"group_mean": mean, "group_variance": variance}
    got = lowered(lower_group_norm, group_norm(4, gamma, beta), x, **forms)
    np.testing.assert_allclose(got, torch_group_norm(x, 4, gamma, beta, 1e-5), atol=1e-5)


@MEANS
@VARIANCES
@pytest.mark.parametrize("eps", [1e-6, 1e-3])
def test_every_form_keeps_epsilon(mean: str, variance: str, eps: float) -> None:
    x, (gamma, beta) = normal(2, 3, 5, 12) * 1e-2, constants(12)
    forms = {"group_mean": mean, "group_variance": variance}
    got = lowered(lower_group_norm, group_norm(4, gamma, beta, eps), x, **forms)
    np.testing.assert_allclose(got, torch_group_norm(x, 4, gamma, beta, eps), atol=1e-5)


@VARIANCES
@pytest.mark.parametrize("mean", ["mean", "rows_first", "groups_first"])
def test_float16_holds_every_form(mean: str, variance: str) -> None:
    x, (gamma, beta) = np.clip(600 * normal(2, 8, 6, 32), -1000, 1000), constants(32)
    graph = build(group_norm(4, gamma, beta), x=x.shape)
    forms = {"group_mean": mean, "group_variance": variance}
    apply(graph, [lower_group_norm], Target(spelling=spelling_of("", forms)))
    found = in_half(graph, {"x": x})
    assert overflowed(found) == []
    want = torch_group_norm(x, 4, gamma, beta, 1e-5)
    np.testing.assert_allclose(found[graph.outputs[0]], want, atol=0.02)


def test_depthwise_steps_are_small() -> None:
    """64 by 24 places take two steps of at most eight a side, and the filters are small."""
    graph = build(group_norm(4, *constants(8)), x=(1, 64, 24, 8))
    apply(graph, [lower_group_norm], Target(spelling=spelling_of("", {"group_mean": "depthwise"})))
    filters = [o.operands[1].shape for o in graph.ops if o.kind == "DEPTHWISE_CONV_2D"]
    assert filters == [(1, 8, 8, 8), (1, 8, 3, 8)] * 2


def test_squared_differences_stand_in_a_row() -> None:
    """What reads x after its mean is ready but for x, so that delegates join each row to one dispatch."""
    graph = build(group_norm(4, *constants(8)), x=(1, 6, 5, 8))
    form = {"group_variance": "squared_difference"}
    apply(graph, [lower_group_norm], Target(spelling=spelling_of("", form)))
    kinds = [o.kind for o in graph.ops]
    assert kinds == [
        *("MEAN", "CONV_2D", "CONV_2D", "MUL", "MUL", "SQUARED_DIFFERENCE"),
        *("MEAN", "CONV_2D", "RSQRT", "CONV_2D", "SUB", "MUL", "ADD"),
    ]


@pytest.mark.parametrize("shape", [(7,), (2, 7), (2, 3, 10), (2, 3, 5, 4)])
@pytest.mark.parametrize("spread", [1e-2, 3.0])
def test_a_plain_layer_norm_equals_torch(shape: tuple[int, ...], spread: float) -> None:
    x, (gamma, beta) = (normal(*shape) + 1) * spread, constants(shape[-1])
    got = lowered(lower_plain_layer_norm, layer_norm(gamma, beta), x, layer_norm="plain")
    np.testing.assert_allclose(got, torch_layer_norm(x, gamma, beta, 1e-5), atol=1e-5)


def test_a_plain_layer_norm_is_one_dispatch() -> None:
    """Both delegates know it; gamma and beta are linked to it."""
    graph = build(layer_norm(*constants(8)), x=(1, 1, 6, 8))
    apply(graph, [lower_plain_layer_norm], Target(spelling=spelling_of("", {"layer_norm": "plain"})))
    for name, delegate in delegates().items():
        assert len(fused(graph, delegate)) == 1, name


@pytest.mark.parametrize(
    ("spell", "because"),
    [
        (lambda new, x: normalised(new, x, [1], *map(new.const, constants(4)), 1e-5, False), "last axis"),
        (
            lambda new, x: normalised(new, x, [2], new.const(normal(1)), new.const(normal(4)), 1e-5, False),
            NOT_CONSTANTS,
        ),
    ],
)
def test_a_plain_layer_norm_is_over_the_last_axis(spell: Any, because: str) -> None:
    target = Target(spelling=spelling_of("", {"layer_norm": "plain"}))
    check_no_rewrite([lower_plain_layer_norm], spell, because, target=target, x=(2, 3, 4))
