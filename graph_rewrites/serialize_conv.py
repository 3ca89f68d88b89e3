"""Serialised Conv2D (arXiv 2307.01193, section 3.1): a convolution too large for the device is sliced."""

import numpy as np

from msd.graph.rewrite import ANY, Build, ConvSize, Op, Skip, Target, Tensor, const, op, rule, skip, var


@rule(
    "lower",
    op.CONV_2D(
        var("x"),
        const("w"),
        const("b"),
        padding=ANY,
        stride_w=ANY,
        stride_h=ANY,
        dilation_w_factor=ANY,
        dilation_h_factor=ANY,
        fused_activation_function=ANY,
    ).named("y"),
)
def serialize_conv(new: Build, x: Tensor, w: Tensor, y: Tensor, target: Target) -> Tensor | Skip:
    """CONV_2D(x)  =>  sum of CONV_2D(x_i) over slices of the input, or concat over slices of the output"""
    size = ConvSize.of(x.shape, w.shape, y.shape, y.maker.attrs)
    if target.fits(size):
        return skip(f"its weights fit {target.device.name}")
    if size.inputs != x.shape[3] or w.quant:
        return skip("it is grouped or quantised")
    by_input, by_output = target.splits(size)
    if by_input is not None and by_input <= (by_output or by_input):
        return _over_inputs(new, y.maker, by_input)
    if by_output is not None:
        return _over_outputs(new, y.maker, by_output)
    return skip(f"no slicing makes it fit {target.device.name}")


def _over_inputs(new: Build, conv: Op, parts: int) -> Tensor:
    """Return the sum over input slices: the first has the bias, the last addition the activation."""
    x, w, b = conv.operands
    step = x.shape[3] // parts
    zero = new.const(np.zeros(b.shape, np.float32), f"{b.name}/zero")
    results = []
    for start in range(0, x.shape[3], step):
        piece = new.SLICE(x, [0, 0, 0, start], [*x.shape[:3], step])
        kernel = new.const(w.weights.slice(3, start, start + step), f"{w.name}[..., {start}:{start + step}]")
        bias = zero if start else b
        results.append(new.again(conv, piece, kernel, bias, fused_activation_function="NONE"))
    total = results[0]
    for result in results[1:-1]:
        total = new.ADD(total, result)
    activation = conv.attrs["fused_activation_function"]
    return new.ADD(total, results[-1], fused_activation_function=activation)


def _over_outputs(new: Build, conv: Op, parts: int) -> Tensor:
    x, w, b = conv.operands
    step = w.shape[0] // parts
    results = []
    for start in range(0, w.shape[0], step):
        kernel = new.const(w.weights.slice(0, start, start + step), f"{w.name}[{start}:{start + step}]")
        bias = new.const(b.weights.slice(0, start, start + step), f"{b.name}[{start}:{start + step}]")
        results.append(new.again(conv, x, kernel, bias))
    return new.CONCATENATION(*results, axis=3)
