"""Convolutions and fully connected layers with their geometry written out."""

from math import prod

from msd.gpu.kinds import BIAS, RESIDUAL
from msd.graph.rewrite import Build, Skip, Tensor, any_op, rule, skip

ACTIVATIONS = {"NONE", "RELU", "RELU6", "RELU_N1_TO_1", "TANH"}


@rule("fuse", any_op("CONV_2D", name="y"))
def make_convolution(new: Build, y: Tensor) -> Tensor | Skip:
    """CONV_2D(x, w, b)  =>  CONVOLUTION(x, w, b) with explicit padding"""
    attrs, (x, w, *rest) = y.maker.attrs, y.maker.inputs
    if x is None or w is None or w.data is None:
        return skip("the filter is not constant")
    if attrs["fused_activation_function"] not in ACTIVATIONS or w.shape[3] != x.shape[3]:
        return skip("it is grouped, or its activation has no kernel")
    stride = (attrs["stride_h"], attrs["stride_w"])
    dilation = (attrs["dilation_h_factor"], attrs["dilation_w_factor"])
    same = attrs["padding"] == "SAME"
    pad = [
        _before(x.shape[i], y.shape[i], w.shape[i], stride[i - 1], dilation[i - 1]) if same else 0
        for i in (1, 2)
    ]
    return new.CONVOLUTION(
        *(x, w, rest[0] if rest else None, *[None] * (RESIDUAL - BIAS)),
        shape=y.shape,
        stride=stride,
        pad=tuple(pad),
        dilation=dilation,
        activation=attrs["fused_activation_function"],
    )


@rule("fuse", any_op("FULLY_CONNECTED", name="y"))
def make_product(new: Build, y: Tensor) -> Tensor | Skip:
    """FULLY_CONNECTED(x, w, b)  =>  a CONVOLUTION with a 1x1 filter"""
    attrs, (x, w, *rest) = y.maker.attrs, y.maker.inputs
    if x is None or w is None or w.data is None:
        return skip("the filter is not constant")
    if attrs["fused_activation_function"] not in ACTIVATIONS or attrs["weights_format"] != 0:
        return skip("its activation or its layout of weights has no kernel")
    rows, (outputs, inputs) = prod(y.shape) // w.shape[0], w.shape
    flat = new.RESHAPE(x, [1, 1, rows, inputs])
    result = new.CONVOLUTION(
        *(flat, w, rest[0] if rest else None, *[None] * (RESIDUAL - BIAS)),
        shape=(1, 1, rows, outputs),
        activation=attrs["fused_activation_function"],
    )
    return new.RESHAPE(result, list(y.shape))


def _before(size: int, result: int, kernel: int, stride: int, dilation: int) -> int:
    """Return the rows of padding on top, as TFLite's SAME has it."""
    return max((result - 1) * stride + (kernel - 1) * dilation + 1 - size, 0) // 2
