"""Checks of operators with weights."""

from __future__ import annotations

from msd.files.wording import counted
from msd.graph.ir import Tensor
from msd.graph.prediction.rules.checks import Check, Flaw, check, version
from msd.graph.prediction.rules.view import View, from_left, missing_scale, scale_count, shape_text

SMALL = ("INT2", "INT4", "INT8")
WEIGHTS = frozenset({"FLOAT32", "FLOAT16", "UINT8", *SMALL})


def convolution_shapes() -> Check:
    """The input, weights and result of a convolution have four dimensions."""

    def test(view: View) -> Flaw | None:
        every = [view.inputs[0], view.input(1), view.outputs[0]]
        other = tuple(t for t in every if t is not None and len(t.shape) != 4)
        shapes = ", ".join(shape_text(t.shape) for t in other)
        return (f"has shape {shapes}; four dimensions are supported", other) if other else None

    return Check("rank", test)


def depthwise_shapes() -> Check:
    """A depthwise convolution's shapes have four dimensions and agree with its multiplier."""

    def test(view: View) -> Flaw | None:
        x, w, y = view.inputs[0], view.input(1), view.outputs[0]
        if x is None or w is None or any(len(t.shape) != 4 for t in (x, w, y)):
            return "uses tensors of other ranks than 4", view.operands
        expected = x.shape[3] * view.attrs["depth_multiplier"]
        if x.shape[0] != y.shape[0] or not expected == y.shape[3] == w.shape[3]:
            return f"has {counted(y.shape[3], 'output channel')}; its multiplier requires {expected}", (w,)
        bias = view.input(2)
        if bias is not None and bias.size != y.shape[3]:
            return f"has {counted(bias.size, 'number')} as its bias; {y.shape[3]} are required", (bias,)
        return None

    return Check("shape", test)


def plain_weights() -> Check:
    """A layer's bias, if any, is constant: a runtime bias crashes the delegate."""

    def test(view: View) -> Flaw | None:
        bias = view.input(2)
        if bias is None or bias.data is not None:
            return None
        clause = "has a runtime tensor as its bias, which crashes the delegate; a constant is supported"
        return clause, (bias,)

    return Check("crash", test)


def sized_weights() -> Check:
    """Constant weights are floats or scaled integers: others crash the delegate or are refused."""

    def test(view: View) -> Flaw | None:
        w = view.input(1)
        if w is None or w.data is None:
            return None
        if w.dtype not in WEIGHTS:
            return f"has weights of {w.dtype}, which crash the delegate; floats are supported", (w,)
        if w.dtype not in ("FLOAT32", "FLOAT16") and not scale_count(w):
            return f"has weights of {w.dtype} {missing_scale(w)}, which crash the delegate", (w,)
        if w.dtype == "INT2" and view.kind == "CONV_2D":
            return "has weights of INT2, which crash the delegate; INT8 and INT4 are supported", (w,)
        if w.dtype == "UINT8" and view.kind == "FULLY_CONNECTED":
            return "has weights of UINT8; INT8 and INT4 are supported", (w,)
        return None

    return Check("dtype", test)


def is_layer(weights: Tensor) -> bool:
    """Whether a convolution with these weights, 1x1 of small integers, becomes a fully connected layer."""
    return weights.dtype in SMALL and weights.shape[1:3] == (1, 1)


def flat_rows() -> Check:
    """A layer with integer weights does not change the rank of one image: no shader supports that."""

    def test(view: View) -> Flaw | None:
        x, w, y = view.operands[0], view.operands[1], view.outputs[0]
        image = from_left(x.shape)
        if not scale_count(w) or image[0] > 1 or image[1] == 1 or image[3] != w.shape[-1]:
            return None
        if (*image[:3], w.shape[0]) == from_left(y.shape):
            return None
        clause = f"turns the image {shape_text(x.shape)} into {shape_text(y.shape)} with integer weights"
        return clause, (x, w)

    return Check("graph", test, fix="use_conv")


def groups_of_four() -> Check:
    """A grouped convolution has multiples of four input and output channels in each group.

    One input and one output channel per group make a depthwise convolution, which is supported.
    """

    def test(view: View) -> Flaw | None:
        x, w = view.inputs[0], view.input(1)
        if x is None or w is None or w.data is None:
            return None
        groups = x.shape[3] // max(1, w.shape[3])
        if groups < 2 or (w.shape[3] == 1 and w.shape[0] == x.shape[3]) or is_layer(w):
            return None
        outputs = w.shape[0] // groups
        if w.shape[3] % 4 == 0 and outputs % 4 == 0:
            return None
        clause = f"has {groups} groups of {w.shape[3]} input and {counted(outputs, 'output channel')}"
        return f"{clause}; multiples of 4 are required", (w,)

    return Check("groups", test)


def first_operand_constant() -> Check:
    """The first matrix of a product is not constant."""
    return check(
        "constness",
        lambda v: v.is_runtime(0),
        "has a constant as its first matrix; only the second may be constant",
        0,
    )


def weights_of_two_dimensions() -> Check:
    """A constant second matrix has rank 2 to 4 and is of floats, or of integers with a scale."""

    def test(view: View) -> Flaw | None:
        w = view.input(1)
        if w is None or w.data is None:
            return None
        if len(w.shape) > 4:
            return f"has a constant of shape {shape_text(w.shape)}; rank 2, 3 or 4 is supported", (w,)
        if w.dtype not in ("FLOAT32", "FLOAT16") and not scale_count(w):
            return f"has a constant of {w.dtype} {missing_scale(w)}, which crashes the delegate", (w,)
        return None

    return Check("constness", test)


def version_of_integers(newest: int) -> Check:
    """A DEQUANTIZE has this version or a lower one; one of a float16 constant is removed unread."""
    plain = version(newest)

    def test(view: View) -> Flaw | None:
        return None if view.constants and view.constants[0].dtype == "FLOAT16" else plain.test(view)

    return Check("version", test)


def scales_known() -> Check:
    """The dequantised tensor has scales: exactly one if it is a runtime tensor."""

    def test(view: View) -> Flaw | None:
        x = view.operands[0]
        if x.dtype == "INT16":
            return "reads INT16; INT8, UINT8, INT4 and constants of FLOAT16 are supported", (x,)
        if x.dtype == "FLOAT16" and x.data is not None:
            return None
        count = scale_count(x)
        fine = count == 1 if x.data is None else count > 0
        scales = f"with {counted(count, 'scale')}" if count else missing_scale(x)
        return None if fine else (f"reads {x.dtype} {scales}; one is required", (x,))

    return Check("quantisation", test)


def dequantize_constant_shape() -> Check:
    """A dequantised constant has rank 4, or rank 2 or 3 with a first dimension of 1.

    The delegate aligns its value from the right, but its reader expects it from the left: "Shape mismatch".
    """

    def test(view: View) -> Flaw | None:
        x = view.operands[0]
        if x.data is None or x.dtype == "FLOAT16":
            return None
        if len(x.shape) not in (2, 3, 4):
            return f"reads a constant of shape {shape_text(x.shape)}; rank 2, 3 or 4 is supported", (x,)
        if len(x.shape) < 4 and x.shape[0] > 1:
            return f"reads a constant of shape {shape_text(x.shape)}, for which the graph is refused", (x,)
        return None

    return Check("graph", test)
