"""An activation behind a convolution."""

import numpy as np

from msd.gpu.kinds import RESIDUAL, SLOPES, activation_of
from msd.graph.rewrite import ANY, Build, Pat, Skip, Tensor, any_op, const, op, rule, skip

CONVOLVED = any_op("CONVOLUTION", name="convolved")


@rule("fuse", Pat("y", ("SILU", "QUICK_GELU", "TANH", "LOGISTIC", "RELU"), (CONVOLVED,)))
def fuse_activation(new: Build, convolved: Tensor, y: Tensor) -> Tensor | Skip:
    """SILU(CONVOLUTION(x))  =>  CONVOLUTION(x) with the activation; tanh, sigmoid and RELU alike"""
    return _fused(new, convolved, y)


@rule("fuse", op.GELU(CONVOLVED, approximate=ANY).named("y"))
def fuse_gelu(new: Build, convolved: Tensor, y: Tensor) -> Tensor | Skip:
    """GELU(CONVOLUTION(x))  =>  CONVOLUTION(x) with the activation, exact or approximate as the GELU was"""
    return _fused(new, convolved, y)


@rule("fuse", op.LEAKY_RELU(CONVOLVED, alpha=ANY).named("y"))
def fuse_leaky_relu(new: Build, convolved: Tensor, y: Tensor) -> Tensor | Skip:
    """LEAKY_RELU(CONVOLUTION(x))  =>  CONVOLUTION(x) with its slope for each channel"""
    slope = y.maker.attrs["alpha"]
    return _sloped(new, convolved, new.const(np.full(y.shape[-1], slope, np.float32)))


@rule("fuse", op.PRELU(CONVOLVED, const("slopes")))
def fuse_prelu(new: Build, convolved: Tensor, slopes: Tensor) -> Tensor | Skip:
    """PRELU(CONVOLUTION(x), slopes)  =>  CONVOLUTION(x) with a slope for each channel"""
    channels = convolved.shape[-1]
    if slopes.size != channels or slopes.shape[-1] != channels:
        return skip("there is not one slope per channel")
    return _sloped(new, convolved, slopes)


def _sloped(new: Build, convolved: Tensor, slopes: Tensor) -> Tensor | Skip:
    maker = convolved.maker
    if maker.attrs["activation"] != "NONE" or maker.inputs[RESIDUAL] is not None:
        return skip("the convolution has an activation or a residual already")
    return new.again(maker, *maker.inputs[:SLOPES], slopes, None, activation="PRELU")


def _fused(new: Build, convolved: Tensor, y: Tensor) -> Tensor | Skip:
    maker = convolved.maker
    if maker.attrs["activation"] != "NONE" or maker.inputs[RESIDUAL] is not None:
        return skip("the convolution has an activation or a residual already")
    return new.again(maker, *maker.inputs, activation=activation_of(y.maker))
