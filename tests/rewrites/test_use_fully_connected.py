"""A matrix product with a constant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_rewrites.use_fully_connected import use_fully_connected
from msd.graph.ir import Build, Graph, Tensor
from tests.harness import check_no_rewrite, check_rewrite, check_untouched, dense, normal, quantised


@pytest.mark.parametrize("shape", [(2, 5), (2, 3, 5), (2, 3, 4, 5)])
@pytest.mark.parametrize("adj_y", [False, True])
def test_a_layer_without_bias(shape: tuple[int, ...], adj_y: bool) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        matrix = new.const(normal(7, 5) if adj_y else normal(5, 7))
        return new.BATCH_MATMUL(x, matrix, adj_y=adj_y, asymmetric_quantize_inputs=True)

    check_rewrite([use_fully_connected], before, lambda new, x: dense(new, x, 7), x=shape)


@pytest.mark.parametrize("matrix", [lambda new: new.const(normal(3, 5, 7)), lambda new: quantised(5, 7)])
def test_not_other_constants(matrix: Any) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        return new.BATCH_MATMUL(x, matrix(new))

    check_no_rewrite([use_fully_connected], before, "is not one matrix of floats", x=(3, 2, 5))


def test_not_integers() -> None:
    new, x = Build(), Tensor("x", (2, 3), "INT16")
    graph = Graph([x], [new.BATCH_MATMUL(x, new.const(np.ones((3, 4), np.int16)))], new.ops)
    check_no_rewrite([use_fully_connected], graph, "is not one matrix of floats")


def test_not_two_runtime_values_or_a_transposed_input() -> None:
    check_untouched([use_fully_connected], lambda new, x, y: new.BATCH_MATMUL(x, y), x=(2, 5), y=(5, 3))
    check_untouched(
        [use_fully_connected],
        lambda new, x: new.BATCH_MATMUL(x, new.const(normal(2, 3)), adj_x=True),
        x=(2, 5),
    )
