"""Fully connected to Conv2D."""

from __future__ import annotations

from typing import Any

import pytest

from graph_rewrites.use_conv import use_conv
from msd.graph.ir import Build, Tensor
from tests.harness import check_no_rewrite, check_rewrite, conv, dense, normal, quantised

PICTURES = {
    (5,): [1, 1, 1, 5],
    (2, 5): [2, 1, 1, 5],
    (2, 3, 5): [2, 1, 3, 5],
    (2, 3, 2, 2, 5): [2, 1, 12, 5],
}


@pytest.mark.parametrize("shape", PICTURES)
@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6"])
def test_any_rank(shape: tuple[int, ...], activation: str) -> None:
    fused = {"fused_activation_function": activation}
    check_rewrite(
        [use_conv],
        lambda new, x: dense(new, x, 7, **fused),
        lambda new, x: new.RESHAPE(
            conv(new, new.RESHAPE(x, PICTURES[shape]), 7, padding="VALID", **fused), [*shape[:-1], 7]
        ),
        x=shape,
    )


@pytest.mark.parametrize("keep", [False, True])
def test_a_picture_stays_one(keep: bool) -> None:
    def after(new: Build, x: Tensor) -> Tensor:
        y = conv(new, x, 7, padding="VALID")
        return y if keep else new.RESHAPE(y, [24, 7])

    check_rewrite([use_conv], lambda new, x: dense(new, x, 7, keep_num_dims=keep), after, x=(2, 3, 4, 5))


def test_flattened_rows() -> None:
    check_rewrite(
        [use_conv],
        lambda new, x: dense(new, x, 7, keep_num_dims=False),
        lambda new, x: new.RESHAPE(conv(new, new.RESHAPE(x, [2, 1, 3, 5]), 7, padding="VALID"), [6, 7]),
        x=(2, 3, 5),
    )


def across(new: Build, x: Tensor) -> Tensor:
    return new.FULLY_CONNECTED(x, new.const(normal(7, 15)), new.const(normal(7)))


def hybrid(new: Build, x: Tensor) -> Tensor:
    return new.FULLY_CONNECTED(x, quantised(7, 5), new.const(normal(7)), keep_num_dims=True)


@pytest.mark.parametrize("before", [across, hybrid])
def test_not_flattened_channels_or_quantised_weights(before: Any) -> None:
    because = "the layer flattens its input across channels, or is quantised already"
    check_no_rewrite([use_conv], before, because, x=(2, 3, 5))
