"""Sparse constants become dense, with the numbers that TensorFlow Lite computes from the sparse ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_rewrites.densify_constants import densify_constants
from msd.graph.ir import Build, Quant, Tensor
from msd.graph.ir.weights import Weights
from msd.graph.rewrite import apply
from tests.harness import build, check_rewrite, check_untouched, evaluate, feeds_for, normal, structure
from tests.sparse_constants import densify, mostly_zero, sparse

STEPS = {"stride_h": 1, "stride_w": 1, "padding": "SAME"}
BLOCKS: dict[str, Any] = {"blocks": [(1, 4)], "compressed": (1,)}


def bias(new: Build, size: int) -> Tensor:
    return new.const(normal(size))


def dense(new: Build, values: Any, quant: Quant | None = None) -> Tensor:
    tensor = new.const(values, "dense")
    tensor.quant = quant
    return tensor


def test_a_layer_of_sparse_blocks() -> None:
    w = mostly_zero(12, 8)
    check_rewrite(
        [densify_constants],
        lambda new, x: new.FULLY_CONNECTED(x, sparse(w, **BLOCKS), version=8),
        lambda new, x: new.FULLY_CONNECTED(x, dense(new, w), version=8),
        x=(3, 8),
    )


@pytest.mark.parametrize("blocks", [[], [(3, 4)]])
def test_a_convolution_behind_densify(blocks: list[tuple[int, int]]) -> None:
    w = mostly_zero(12, 3, 3, 8)
    check_rewrite(
        [densify_constants],
        lambda new, x: new.CONV_2D(x, densify(new, sparse(w, blocks=blocks)), bias(new, 12), **STEPS),
        lambda new, x: new.CONV_2D(x, dense(new, w), bias(new, 12), **STEPS),
        x=(1, 5, 6, 8),
    )


@pytest.mark.parametrize("behind", [True, False])
def test_float16_gets_the_numbers_of_the_dense_constant(behind: bool) -> None:
    """LiteRT 2.3.0 itself reads sparse float16 as if it were dense, behind DENSIFY or not: no numbers."""
    w = mostly_zero(1, 3, 3, 8, dtype="float16")

    def spell(new: Build, x: Tensor, half: Tensor) -> Tensor:
        return new.DEPTHWISE_CONV_2D(x, new.DEQUANTIZE(half, version=3), bias(new, 8), **STEPS)

    before = build(
        lambda new, x: spell(new, x, densify(new, sparse(w)) if behind else sparse(w)), x=(1, 5, 6, 8)
    )
    wanted = build(lambda new, x: spell(new, x, dense(new, w)), x=(1, 5, 6, 8))
    assert apply(before, [densify_constants]).fired
    assert structure(before) == structure(wanted)
    feeds = feeds_for(wanted)
    np.testing.assert_array_equal(evaluate(before, feeds), evaluate(wanted, feeds))


def test_scales_stay() -> None:
    w, quant = mostly_zero(5, 8, dtype="int8"), Quant(np.float32([0.5]), np.int64([0]))
    check_rewrite(
        [densify_constants],
        lambda new, x: new.ADD(x, new.DEQUANTIZE(densify(new, sparse(w, quant=quant)), version=2)),
        lambda new, x: new.ADD(x, new.DEQUANTIZE(dense(new, w, quant), version=2)),
        x=(5, 8),
    )


def test_dense_constants_and_those_of_types_that_numpy_lacks_stay() -> None:
    w = mostly_zero(12, 8)
    check_untouched([densify_constants], lambda new, x: new.FULLY_CONNECTED(x, dense(new, w)), x=(3, 8))
    tensor = sparse(w)
    tensor.dtype, tensor.data = "INT4", Weights.of(np.zeros(6, np.uint8))
    graph = build(lambda new, x: new.FULLY_CONNECTED(x, tensor), x=(3, 8))
    assert not apply(graph, [densify_constants]).fired
    assert graph.ops[0].operands[1].sparsity is not None


def test_a_densify_that_the_graph_returns_keeps_its_sparse_constant() -> None:
    """An output needs an operator, and DENSIFY takes no dense constant."""
    w = mostly_zero(12, 8)

    def spell(new: Build, x: Tensor) -> tuple[Tensor, Tensor]:
        whole = densify(new, sparse(w, **BLOCKS))
        return new.ADD(x, whole), whole

    graph = build(spell, x=(12, 8))
    before = str(graph)
    apply(graph, [densify_constants])
    assert str(graph) == before
    (sum_, _) = evaluate(graph, feeds := feeds_for(graph))
    np.testing.assert_allclose(sum_, next(iter(feeds.values())) + w, atol=1e-6)
