"""Serialised Conv2D (arXiv 2307.01193, section 3.1): a convolution too large for the device, in slices."""

from msd.device import ConvSize
from msd.rewrite import ANY, Build, Skip, Target, Tensor, const, op, rule, skip, var


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
def serialize_conv(new: Build, x: Tensor, w: Tensor, b: Tensor, y: Tensor, target: Target) -> Tensor | Skip:
    """CONV_2D(x)  =>  sum of CONV_2D(x_i) over slices of the input, or concat over slices of the output"""
    attrs = y.maker.attrs
    plain = all(attrs[k] == 1 for k in ("stride_w", "stride_h", "dilation_w_factor", "dilation_h_factor"))
    outputs, kh, kw, inputs = w.shape
    size = ConvSize(inputs, outputs, y.shape[1], y.shape[2], (kh, kw), plain)
    if target.device.fits(size):
        return skip(f"its weights fit {target.device.name}")
    if inputs != x.shape[3] or w.quant:
        return skip("it is grouped or quantised")
    by_input, by_output = target.device.input_split(size), target.device.output_split(size)
    if by_input is None and by_output is None:
        return skip(f"no slicing makes it fit {target.device.name}")
    if by_output is None or (by_input is not None and by_input <= by_output):
        return _over_inputs(new, x, w, b, by_input, attrs)
    return _over_outputs(new, x, w, b, by_output, attrs)


def _over_inputs(new: Build, x: Tensor, w: Tensor, b: Tensor, parts: int, attrs: dict) -> Tensor:
    """The bias goes into the first slice, the activation behind the last sum."""
    step = x.shape[3] // parts
    inner = {**attrs, "fused_activation_function": "NONE"}
    zero = new.const(b.weights.map("* 0", lambda a: a * 0), f"{b.name}/zero")
    total = None
    for i in range(parts):
        piece = new.SLICE(x, [0, 0, 0, i * step], [*x.shape[:3], step])
        kernel = new.const(w.weights.slice(3, i * step, (i + 1) * step), f"{w.name}[..., {i * step}:]")
        result = new.CONV_2D(piece, kernel, zero if i else b, **inner)
        last = attrs["fused_activation_function"] if i == parts - 1 else "NONE"
        total = result if total is None else new.ADD(total, result, fused_activation_function=last)
    return total


def _over_outputs(new: Build, x: Tensor, w: Tensor, b: Tensor, parts: int, attrs: dict) -> Tensor:
    step = w.shape[0] // parts
    results = []
    for start in range(0, w.shape[0], step):
        kernel = new.const(w.weights.slice(0, start, start + step), f"{w.name}[{start}:]")
        bias = new.const(b.weights.slice(0, start, start + step), f"{b.name}[{start}:]")
        results.append(new.CONV_2D(x, kernel, bias, **attrs))
    return new.CONCATENATION(*results, axis=3)
