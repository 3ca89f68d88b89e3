"""Fusion: what graph_rewrites lower is recognised again, with the numbers that it had."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from graph_rewrites.clip_gelu import clip_gelu, clip_gelu_slope
from graph_rewrites.lower_normalization import (
    lower_group_norm,
    lower_layer_norm,
    lower_plain_layer_norm,
)
from msd.gpu.fuse import fuse
from msd.gpu.kinds import RESIDUAL, VECTOR
from msd.gpu.switches import Switches
from msd.graph.ir import Build, Graph, Op, Tensor
from msd.graph.rewrite import Rewrite, Target, apply
from msd.graph.rewrite.spelling import FORMS, spelling_of
from tests.harness import Spell, build, normal
from tests.rewrites.test_lower_normalization import group_norm, layer_norm

OFF = Switches(norms=False, gelu=False)


def fused(
    spell: Spell,
    *lowered: Rewrite,
    switches: Switches | None = None,
    forms: dict[str, str] | None = None,
    **inputs: tuple[int, ...],
) -> Graph:
    graph = build(spell, **inputs)
    apply(graph, lowered, Target(spelling=spelling_of("", forms or {})))
    fuse(graph, switches or Switches())
    graph.verify()
    return graph


def kinds(graph: Graph) -> Counter[str]:
    return Counter(op.kind for op in graph.ops)


def only(graph: Graph, kind: str) -> Op:
    (found,) = (op for op in graph.ops if op.kind == kind)
    return found


def constant(op: Op, place: int) -> np.ndarray:
    tensor = op.inputs[place]
    assert tensor is not None
    return tensor.values().reshape(-1)


def convolution(new: Build, x: Tensor, outputs: int, kernel: int = 1, **attrs: object) -> Tensor:
    filters = normal(outputs, kernel, kernel, x.shape[3])
    return new.CONV_2D(x, new.const(filters), new.const(normal(outputs)), stride_h=1, stride_w=1, **attrs)


@pytest.mark.parametrize("epsilon", [1e-5, 1e-6])
@pytest.mark.parametrize(("groups", "channels"), [(2, 6), (4, 4), (1, 8)])
@pytest.mark.parametrize("mean", ["mean", "rows_first"])
@pytest.mark.parametrize("variance", FORMS["group_variance"])
def test_group_norm_has_the_epsilon_and_scale_it_was_lowered_from(
    groups: int, channels: int, epsilon: float, mean: str, variance: str
) -> None:
    gamma, beta = normal(channels), normal(channels, seed=1)
    spell = group_norm(groups, gamma, beta, epsilon)
    forms = {"group_mean": mean, "group_variance": variance}
    graph = fused(spell, lower_group_norm, forms=forms, x=(2, 3, 5, channels))
    assert kinds(graph) == {"GROUP_NORM": 1}
    norm = only(graph, "GROUP_NORM")
    assert norm.attrs["groups"] == groups
    assert norm.attrs["epsilon"] == pytest.approx(epsilon, rel=1e-4)
    np.testing.assert_allclose(constant(norm, 1), gamma, rtol=1e-5)
    np.testing.assert_array_equal(constant(norm, 2), beta)


def test_silu_behind_a_group_norm_is_its_activation() -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        normalised = group_norm(2, normal(6), normal(6))(new, x)
        return new.MUL(normalised, new.LOGISTIC(normalised))

    graph = fused(spell, lower_group_norm, x=(1, 3, 5, 6))
    assert kinds(graph) == {"GROUP_NORM": 1}
    assert graph.ops[0].attrs["activation"] == "SILU"


@pytest.mark.parametrize("form", FORMS["layer_norm"])
def test_a_layer_norm_takes_its_scale_and_shift(form: str) -> None:
    gamma, beta = normal(6), normal(6, seed=1)
    forms, rules = {"layer_norm": form}, (lower_layer_norm, lower_plain_layer_norm)
    graph = fused(layer_norm(gamma, beta, 1e-5), *rules, forms=forms, x=(1, 3, 5, 6))
    assert kinds(graph) == {"LAYER_NORM": 1}
    norm = only(graph, "LAYER_NORM")
    assert norm.attrs["epsilon"] == pytest.approx(1e-5, rel=1e-5)
    np.testing.assert_array_equal(constant(norm, 1), gamma)
    np.testing.assert_array_equal(constant(norm, 2), beta)


def test_averages_over_other_channels_than_groups_are_no_group_norm() -> None:
    """The same operators, but the first filter weighs channels differently."""

    def spell(new: Build, x: Tensor) -> Tensor:
        def pointwise(y: Tensor, filters: np.ndarray) -> Tensor:
            shape = (filters.shape[0], 1, 1, filters.shape[1])
            weights, bias = (
                new.const(filters.astype(np.float32).reshape(shape)),
                new.const(np.ones(shape[0], "f4")),
            )
            return new.CONV_2D(y, weights, bias, padding="VALID", stride_h=1, stride_w=1)

        uneven, spread = np.array([[0.7, 0.3]]), np.ones((2, 1))
        mean = pointwise(pointwise(new.MEAN(x, [1, 2], keep_dims=True), uneven), spread)
        small = new.MUL(new.SUB(x, mean), 0.125)
        squares = new.MEAN(new.MUL(small, small), [1, 2], keep_dims=True)
        return new.MUL(small, pointwise(new.RSQRT(pointwise(squares, uneven)), spread))

    assert "GROUP_NORM" not in kinds(fused(spell, x=(1, 3, 5, 2)))


@pytest.mark.parametrize("form", FORMS["gelu"])
def test_gelu_and_its_gate_are_one_convolution(form: str) -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        value, gate = convolution(new, x, 8), convolution(new, x, 8)
        return new.MUL(value, new.GELU(gate, approximate=True))

    graph = fused(spell, clip_gelu, clip_gelu_slope, forms={"gelu": form}, x=(1, 3, 5, 4))
    assert kinds(graph) == {"CONVOLUTION": 1}


@pytest.mark.parametrize(("approximate", "activation"), [(False, "GELU"), (True, "TANH_GELU")])
@pytest.mark.parametrize("gated", [False, True])
def test_gelu_keeps_its_form_in_a_convolution(approximate: bool, activation: str, gated: bool) -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        y = new.GELU(convolution(new, x, 8), approximate=approximate)
        return new.MUL(convolution(new, x, 8), y) if gated else y

    graph = fused(spell, x=(1, 3, 5, 4))
    assert kinds(graph) == {"CONVOLUTION": 1}
    assert graph.ops[0].attrs["activation"] == activation


@pytest.mark.parametrize("outputs", [6, 8])
def test_a_gate_of_other_columns_than_fours_stays_a_product(outputs: int) -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        value, gate = convolution(new, x, outputs), convolution(new, x, outputs)
        return new.MUL(value, new.GELU(gate, approximate=True))

    assert kinds(fused(spell, clip_gelu, x=(1, 3, 5, 4)))["MUL"] == (outputs == 6)


@pytest.mark.parametrize("factors", [(0.125, 0.25), (0.0, 0.0)])
def test_other_factors_on_the_value_and_the_mean_are_no_group_norm(factors: tuple[float, float]) -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        def pointwise(y: Tensor, outputs: int, value: float) -> Tensor:
            filters = np.full((outputs, 1, 1, y.shape[3]), value, np.float32)
            weights, bias = new.const(filters), new.const(np.full(outputs, 1 - value, np.float32))
            return new.CONV_2D(y, weights, bias, padding="VALID", stride_h=1, stride_w=1)

        mean = pointwise(pointwise(new.MEAN(x, [1, 2], keep_dims=True), 1, 0.5), 2, 1)
        squares = new.SQUARED_DIFFERENCE(new.MUL(x, factors[0]), new.MUL(mean, factors[1]))
        variance = pointwise(new.MEAN(squares, [1, 2], keep_dims=True), 1, 0.5)
        return new.MUL(new.SUB(x, mean), pointwise(new.RSQRT(variance), 2, 1))

    assert kinds(fused(spell, x=(1, 3, 5, 2)))["SQUARED_DIFFERENCE"] == 1


def test_quick_gelu_goes_into_its_convolution() -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        y = convolution(new, x, 4)
        return new.MUL(y, new.LOGISTIC(new.MUL(y, 1.702)))

    graph = fused(spell, x=(1, 3, 5, 4))
    assert kinds(graph) == {"CONVOLUTION": 1}
    assert graph.ops[0].attrs["activation"] == "QUICK_GELU"


def test_a_polynomial_that_is_not_gelu_stays() -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        c = new.MUL(x, 0.1, fused_activation_function="RELU_N1_TO_1")
        return new.MUL(x, new.LOGISTIC(new.MUL(c, new.ADD(new.MUL(new.MUL(c, c), 70.0), 16.0))))

    assert "GELU" not in kinds(fused(spell, x=(1, 3, 5, 4)))


def test_switched_off_optimisations_leave_their_operators() -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        return new.GELU(group_norm(2, normal(4), normal(4))(new, x), approximate=True)

    found = kinds(fused(spell, lower_group_norm, clip_gelu, switches=OFF, x=(1, 3, 5, 4)))
    assert not {"GROUP_NORM", "GELU"} & set(found)


def test_a_residual_a_vector_and_an_activation_go_into_their_convolution() -> None:
    def spell(new: Build, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        timed = new.ADD(convolution(new, x, 4, 3), t)
        early = convolution(new, t, 4)
        return new.ADD(x, convolution(new, timed, 4)), new.MUL(early, new.LOGISTIC(early))

    graph = fused(spell, x=(2, 3, 5, 4), t=(2, 1, 1, 4))
    assert kinds(graph) == {"CONVOLUTION": 3}
    assert [bool(op.inputs[VECTOR]) for op in graph.ops].count(True) == 1
    assert [bool(op.inputs[RESIDUAL]) for op in graph.ops].count(True) == 1
    assert sorted(op.attrs["activation"] for op in graph.ops) == ["NONE", "NONE", "SILU"]


def test_a_sum_that_something_else_reads_before_it_stays_outside() -> None:
    def spell(new: Build, x: Tensor) -> tuple[Tensor, Tensor]:
        y = convolution(new, x, 4)
        return y, new.ADD(x, y)

    assert kinds(fused(spell, x=(1, 3, 5, 4))) == {"CONVOLUTION": 1, "ADD": 1}


def test_padding_and_upsampling_are_read_by_the_convolution() -> None:
    def spell(new: Build, x: Tensor) -> tuple[Tensor, Tensor]:
        padded = new.PAD(x, new.const(np.array([[0, 0], [0, 1], [2, 0], [0, 0]], np.int32)))
        large = new.RESIZE_NEAREST_NEIGHBOR(x, [6, 10])
        return convolution(new, padded, 4, 3, padding="VALID"), convolution(new, large, 4, 3)

    graph = fused(spell, x=(1, 3, 5, 4))
    assert kinds(graph) == {"CONVOLUTION": 2}
    assert [op.attrs["pad"] for op in graph.ops] == [(0, 2), (1, 1)]
    assert [op.attrs["upsample"] for op in graph.ops] == [1, 2]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
def test_attention_reads_its_heads_in_place(batch: int, masked: bool) -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        rows = new.TRANSPOSE(new.RESHAPE(convolution(new, x, 24), [batch, 15, 6, 4]), [0, 2, 1, 3])
        q, k, v = new.SPLIT(1, rows, 3)
        scores = new.BATCH_MATMUL(q, new.TRANSPOSE(k, [0, 1, 3, 2]))
        if masked:
            scores = new.ADD(scores, new.const(normal(1, 1, 15, 15)))
        heads = new.BATCH_MATMUL(new.SOFTMAX(scores, beta=1.0), v)
        return new.RESHAPE(new.TRANSPOSE(heads, [0, 2, 1, 3]), [batch, 3, 5, 8])

    graph = fused(spell, x=(batch, 3, 5, 4))
    assert kinds(graph) == {"CONVOLUTION": 1, "ATTENTION": 1, "RESHAPE": 1}
    op = only(graph, "ATTENTION")
    assert [op.attrs[f"{name}_offset"] for name in "qkv"] == [0, 8, 16]
    assert (op.attrs["batch"], op.attrs["heads"], op.attrs["queries"], op.attrs["size"]) == (batch, 2, 15, 4)
    assert (op.attrs["q_row"], op.attrs["q_head"], op.attrs["y_row"], op.attrs["y_head"]) == (24, 4, 8, 4)
    assert (op.inputs[3] is not None) == masked


def test_a_softmax_that_something_else_reads_stays_outside() -> None:
    def spell(new: Build, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        weights = new.SOFTMAX(new.BATCH_MATMUL(q, k, adj_y=True), beta=1.0)
        return weights, new.BATCH_MATMUL(weights, k)

    assert "ATTENTION" not in kinds(fused(spell, q=(1, 2, 5, 4), k=(1, 2, 7, 4)))


def test_weights_stored_as_float16_are_read_as_they_are() -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        filters = new.const(normal(4, 1, 1, 4).astype(np.float16))
        return new.CONV_2D(x, new.DEQUANTIZE(filters), new.const(normal(4)), stride_h=1, stride_w=1)

    op = only(fused(spell, x=(1, 3, 5, 4)), "CONVOLUTION")
    assert op.operands[1].dtype == "FLOAT16"
