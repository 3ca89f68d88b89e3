"""Constants added to a layer's result."""

from __future__ import annotations

from typing import Any

import pytest

from graph_rewrites.fold_bias import fold_conv_bias, fold_dense_bias
from msd.graph.ir import Build, Tensor
from tests.harness import check_no_rewrite, check_rewrite, check_untouched, conv, dense, normal, quantised

ODD: dict[str, Any] = {"padding": "VALID", "stride_h": 2, "stride_w": 1, "dilation_w_factor": 1}


@pytest.mark.parametrize("shape", [(7,), (1, 7), (1, 1, 1, 7)])
@pytest.mark.parametrize("flip", [False, True])
def test_conv(shape: tuple[int, ...], flip: bool) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        operands = (conv(new, x, 7, (3, 2)), new.const(normal(*shape)))
        return new.ADD(*(operands[::-1] if flip else operands))

    check_rewrite([fold_conv_bias], before, lambda new, x: conv(new, x, 7, (3, 2)), x=(2, 5, 6, 3))


@pytest.mark.parametrize("attrs", [ODD, {"dilation_h_factor": 2, "dilation_w_factor": 3}])
def test_conv_with_attributes(attrs: dict[str, Any]) -> None:
    check_rewrite(
        [fold_conv_bias],
        lambda new, x: new.ADD(conv(new, x, 7, (3, 2), **attrs), new.const(normal(7))),
        lambda new, x: conv(new, x, 7, (3, 2), **attrs),
        x=(1, 9, 8, 3),
    )


@pytest.mark.parametrize("keep", [False, True])
def test_dense(keep: bool) -> None:
    check_rewrite(
        [fold_dense_bias],
        lambda new, x: new.ADD(dense(new, x, 7, keep_num_dims=keep), new.const(normal(7))),
        lambda new, x: dense(new, x, 7, keep_num_dims=keep),
        x=(2, 3, 5),
    )


@pytest.mark.parametrize("activation", ["RELU", "RELU6"])
def test_the_activation_of_the_sum_is_kept(activation: str) -> None:
    fused = {"fused_activation_function": activation}
    check_rewrite(
        [fold_conv_bias],
        lambda new, x: new.ADD(conv(new, x, 7), new.const(normal(7)), **fused),
        lambda new, x: conv(new, x, 7, **fused),
        x=(2, 3, 4, 5),
    )
    check_rewrite(
        [fold_dense_bias],
        lambda new, x: new.ADD(dense(new, x, 7), new.const(normal(7)), **fused),
        lambda new, x: dense(new, x, 7, **fused),
        x=(2, 5),
    )


def test_not_behind_the_layers_own_activation() -> None:
    fused = {"fused_activation_function": "RELU"}
    check_untouched(
        [fold_conv_bias],
        lambda new, x: new.ADD(conv(new, x, 7, **fused), new.const(normal(7))),
        x=(2, 3, 4, 5),
    )
    check_untouched(
        [fold_dense_bias], lambda new, x: new.ADD(dense(new, x, 7, **fused), new.const(normal(7))), x=(2, 5)
    )


@pytest.mark.parametrize("shape", [(), (1,), (4, 1), (4, 7), (1, 3, 1, 1), (7, 1), (1, 1, 1, 1, 7)])
def test_not_when_the_constant_is_not_per_channel(shape: tuple[int, ...]) -> None:
    check_no_rewrite(
        [fold_conv_bias],
        lambda new, x: new.ADD(conv(new, x, 7), new.const(normal(*shape))),
        because="is not one number per output channel",
        x=(2, 3, 7 if shape == (7, 1) else 4, 5),
    )


def test_not_a_quantised_layer() -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        y = new.FULLY_CONNECTED(x, quantised(7, 5), new.const(normal(7)), keep_num_dims=True)
        return new.ADD(y, new.const(normal(7)))

    check_no_rewrite([fold_dense_bias], before, because="the layer is quantised", x=(2, 5))


def test_not_when_the_layer_is_used_twice() -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        y = conv(new, x, 7)
        return new.MUL(new.ADD(y, new.const(normal(7))), y)

    check_no_rewrite(
        [fold_conv_bias], before, because="the inner CONV_2D is also used elsewhere", x=(2, 3, 4, 5)
    )
