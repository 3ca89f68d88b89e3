"""A constant that is added per channel to a layer's result moves into its bias."""

import numpy as np

from msd.graph.rewrite import ANY, Build, Skip, Tensor, const, op, rule, skip, var

CONV = {"padding": ANY, "stride_w": ANY, "stride_h": ANY, "dilation_w_factor": ANY, "dilation_h_factor": ANY}
LAYER = op.CONV_2D(var("x"), const("w"), const("b"), **CONV).named("layer")
DENSE = op.FULLY_CONNECTED(var("x"), const("w"), const("b"), keep_num_dims=ANY).named("layer")


def _with_bias(
    new: Build, x: Tensor, w: Tensor, b: Tensor, c: Tensor, layer: Tensor, y: Tensor
) -> Tensor | Skip:
    channels = w.shape[0]
    if c.size != channels or c.shape[-1:] != (channels,) or layer.shape != y.shape:
        return skip(f"a constant of shape {list(c.shape)} is not one number per output channel")
    if w.quant:
        return skip("the layer is quantised")
    bias = new.const(b.weights.combine("+ bias", np.add, c.weights.reshape((channels,))), c.name)
    activation = y.maker.attrs["fused_activation_function"]
    return new.again(layer.maker, x, w, bias, fused_activation_function=activation)


@rule("canonicalize cleanup", op.ADD(LAYER, const("c"), fused_activation_function=ANY).named("y"))
def fold_conv_bias(
    new: Build, x: Tensor, w: Tensor, b: Tensor, c: Tensor, layer: Tensor, y: Tensor
) -> Tensor | Skip:
    """ADD(CONV_2D(x, w, b), c)  =>  CONV_2D(x, w, b + c)"""
    return _with_bias(new, x, w, b, c, layer, y)


@rule("canonicalize cleanup", op.ADD(DENSE, const("c"), fused_activation_function=ANY).named("y"))
def fold_dense_bias(
    new: Build, x: Tensor, w: Tensor, b: Tensor, c: Tensor, layer: Tensor, y: Tensor
) -> Tensor | Skip:
    """ADD(FULLY_CONNECTED(x, w, b), c)  =>  FULLY_CONNECTED(x, w, b + c)"""
    return _with_bias(new, x, w, b, c, layer, y)
