"""Versions that delegates accept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_rewrites.stamp_versions import RANK5_VERSIONS, stamp_versions
from msd.graph.ir import Build, Graph, Op, Quant, Tensor
from msd.graph.ir.weights import Weights
from msd.graph.rewrite import apply
from tests.harness import Ints, check_rewrite, check_untouched, normal


@pytest.mark.parametrize("kind", RANK5_VERSIONS)
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (3, 5), ()])
def test_rank_4_and_below(kind: str, shape: tuple[int, ...]) -> None:
    def spell(new: Build, x: Tensor, version: int) -> Tensor:
        return getattr(new, kind)(x, 2.0, version=version)

    check_rewrite(
        [stamp_versions],
        lambda new, x: spell(new, x, RANK5_VERSIONS[kind] + 1),
        lambda new, x: spell(new, x, RANK5_VERSIONS[kind]),
        x=shape,
    )


def test_not_of_rank_5_or_of_integers_or_lower_already() -> None:
    check_untouched([stamp_versions], lambda new, x: new.SUB(x, 2.0, version=3), x=(1, 2, 3, 4, 5))
    check_untouched([stamp_versions], lambda new, x: new.ADD(x, 2, version=2), x=Ints((2, 3)))
    check_untouched([stamp_versions], lambda new, x: new.SUB(x, 2.0, version=1), x=(2, 3))
    check_untouched([stamp_versions], lambda new, x: new.MAXIMUM(x, 2.0, version=3), x=(2, 3))


STEPS: dict[str, Any] = {"stride_h": 1, "stride_w": 1, "padding": "SAME"}


def weights(shape: tuple[int, ...], scales: int, axis: int, dtype: str = "INT8") -> Tensor:
    values = np.random.default_rng(3).integers(-127, 128, shape).astype(np.int8)
    quant = Quant(np.geomspace(0.01, 0.1, scales).astype(np.float32), np.zeros(scales, np.int64), axis)
    return Tensor("w", shape, dtype, Weights.of(values), quant)


def layer(new: Build, x: Tensor, kind: str, scales: int, version: int) -> Tensor:
    if kind == "FULLY_CONNECTED":
        w = weights((12, 8), scales, 0)
        return new.FULLY_CONNECTED(x, w, new.const(normal(12)), version=version, keep_num_dims=True)
    if kind == "CONV_2D":
        w = weights((12, 3, 3, 8), scales, 0)
        return new.CONV_2D(x, w, new.const(normal(12)), version=version, **STEPS)
    w = weights((1, 3, 3, 8), scales, 3)
    return new.DEPTHWISE_CONV_2D(x, w, new.const(normal(8)), version=version, depth_multiplier=1, **STEPS)


@pytest.mark.parametrize(
    ("kind", "scales", "version"),
    [
        ("FULLY_CONNECTED", 12, 12),
        ("FULLY_CONNECTED", 1, 3),
        ("CONV_2D", 12, 5),
        ("CONV_2D", 1, 2),
        ("DEPTHWISE_CONV_2D", 8, 6),
    ],
)
@pytest.mark.parametrize("before", [1, 2])
def test_int8_weights_raise_the_version(kind: str, scales: int, version: int, before: int) -> None:
    """As ai-edge-quantizer leaves it at 1; the numbers are LiteRT's."""
    if before == version:
        check_untouched([stamp_versions], lambda new, x: layer(new, x, kind, scales, 2), x=(1, 5, 6, 8))
        return
    check_rewrite(
        [stamp_versions],
        lambda new, x: layer(new, x, kind, scales, before),
        lambda new, x: layer(new, x, kind, scales, version),
        x=(1, 5, 6, 8),
    )


@pytest.mark.parametrize(("dtype", "scales", "version"), [("INT8", 32, 4), ("INT4", 1, 4), ("INT8", 1, 1)])
def test_tables_with_a_scale_for_each_row(dtype: str, scales: int, version: int) -> None:
    ids, result = Tensor("ids", (5,), "INT32"), Tensor("y", (5, 16))
    lookup = Op("EMBEDDING_LOOKUP", [ids, weights((32, 16), scales, 0, dtype)], [result])
    graph = Graph([ids], [result], [lookup])
    apply(graph, [stamp_versions])
    assert lookup.version == version


def test_an_input_that_is_quantised_with_a_zero_point() -> None:
    def spell(new: Build, x: Tensor, version: int) -> Tensor:
        w, attrs = weights((12, 8), 1, 0), {"asymmetric_quantize_inputs": True}
        return new.FULLY_CONNECTED(x, w, new.const(normal(12)), version=version, **attrs)

    check_rewrite(
        [stamp_versions],
        lambda new, x: spell(new, x, 1),
        lambda new, x: spell(new, x, 9),
        x=(5, 8),
    )


def test_what_is_of_integers_throughout_stays() -> None:
    x, y = Tensor("x", (5, 8), "INT8"), Tensor("y", (5, 12), "INT8")
    made = Op("FULLY_CONNECTED", [x, weights((12, 8), 12, 0)], [y], version=4)
    apply(Graph([x], [y], [made]), [stamp_versions])
    assert made.version == 4
