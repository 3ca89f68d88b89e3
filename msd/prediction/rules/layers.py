"""Checks of operations with weights."""

from __future__ import annotations

from msd.ir import Tensor
from msd.prediction.rules.checks import Check, Flaw, check, version
from msd.prediction.rules.view import View, from_left, has_scales, listed

SMALL = ("INT2", "INT4", "INT8")
WEIGHTS = frozenset({"FLOAT32", "FLOAT16", "UINT8", *SMALL})


def convolution_shapes() -> Check:
    """Input, weights and result of a convolution have four dimensions."""

    def test(view: View) -> Flaw | None:
        every = [view.inputs[0], view.input(1), view.outputs[0]]
        other = tuple(t for t in every if t is not None and len(t.shape) != 4)
        shapes = ", ".join(listed(t.shape) for t in other)
        return (f"has shape {shapes}; four dimensions are taken", other) if other else None

    return Check("rank", test)


def depthwise_shapes() -> Check:
    """A depthwise convolution's four-dimensional shapes and its multiplier belong together."""

    def test(view: View) -> Flaw | None:
        x, w, y = view.inputs[0], view.input(1), view.outputs[0]
        if x is None or w is None or any(len(t.shape) != 4 for t in (x, w, y)):
            return "works on other than four dimensions", view.operands
        made = x.shape[3] * view.attrs["depth_multiplier"]
        if x.shape[0] != y.shape[0] or not made == y.shape[3] == w.shape[3]:
            return f"makes {y.shape[3]} channels; {made} were expected of its multiplier", (w,)
        bias = view.input(2)
        if bias is not None and bias.size != y.shape[3]:
            return f"has {bias.size} numbers as its bias; {y.shape[3]} are wanted", (bias,)
        return None

    return Check("shape", test)


def plain_weights() -> Check:
    """A bias of a layer is a constant where there is one: a runtime one ends the process."""

    def test(view: View) -> Flaw | None:
        bias = view.input(2)
        if bias is None or bias.data is not None:
            return None
        return "has a runtime tensor as its bias, which crashes the delegate; a constant is taken", (bias,)

    return Check("crash", test)


def sized_weights() -> Check:
    """Constant weights are floats, or integers with a scale: others end the process or are refused."""

    def test(view: View) -> Flaw | None:
        w = view.input(1)
        if w is None or w.data is None:
            return None
        if w.dtype not in WEIGHTS:
            return f"has weights of {w.dtype}, which crash the delegate; floats are taken", (w,)
        if w.dtype not in ("FLOAT32", "FLOAT16") and not has_scales(w):
            return f"has weights of {w.dtype} without a scale, which crash the delegate", (w,)
        if w.dtype == "UINT8" and view.kind == "FULLY_CONNECTED":
            return "has weights of UINT8; INT8 and INT4 are taken", (w,)
        return None

    return Check("dtype", test)


def is_layer(weights: Tensor) -> bool:
    """Whether a convolution's weights are small integers of one place: it becomes a fully connected layer."""
    return weights.dtype in SMALL and weights.shape[1:3] == (1, 1)


def flat_rows() -> Check:
    """Integer weights of a layer do not also change the rank of one image: its shader cannot be written."""

    def test(view: View) -> Flaw | None:
        x, w, y = view.operands[0], view.operands[1], view.outputs[0]
        image = from_left(x.shape)
        if not has_scales(w) or image[0] > 1 or image[1] == 1 or image[3] != w.shape[-1]:
            return None
        if (*image[:3], w.shape[0]) == from_left(y.shape):
            return None
        return f"makes {listed(y.shape)} of the image {listed(x.shape)} with integer weights", (x, w)

    return Check("graph", test, fix="use_conv")


def groups_of_four() -> Check:
    """A grouped convolution reads and makes multiples of four channels in each group.

    One channel in and one out is a depthwise convolution, and taken.
    """

    def test(view: View) -> Flaw | None:
        x, w = view.inputs[0], view.input(1)
        if x is None or w is None or w.data is None:
            return None
        groups = x.shape[3] // max(1, w.shape[3])
        if groups < 2 or (w.shape[3] == 1 and w.shape[0] == x.shape[3]) or is_layer(w):
            return None
        makes = w.shape[0] // groups
        if w.shape[3] % 4 == 0 and makes % 4 == 0:
            return None
        clause = f"has {groups} groups of {w.shape[3]} channels in and {makes} out"
        return f"{clause}; multiples of 4 are wanted", (w,)

    return Check("groups", test)


def first_operand_constant() -> Check:
    """Of a product of matrices only the second one may be constant."""
    return check(
        "constness",
        lambda v: v.is_runtime(0),
        "has a constant as its first matrix; only the second may be one",
        0,
    )


def weights_of_two_dimensions() -> Check:
    """A constant second matrix is of rank 2 to 4, of floats or of integers with a scale."""

    def test(view: View) -> Flaw | None:
        w = view.input(1)
        if w is None or w.data is None:
            return None
        if len(w.shape) > 4:
            return f"has a constant of shape {listed(w.shape)}; rank 2, 3 or 4 is taken", (w,)
        if w.dtype not in ("FLOAT32", "FLOAT16") and not has_scales(w):
            return f"has a constant of {w.dtype} without a scale, which crashes the delegate", (w,)
        return None

    return Check("constness", test)


def version_of_integers(newest: int) -> Check:
    """A DEQUANTIZE is of this version or older; one of a float16 constant is taken away unread."""
    plain = version(newest)

    def test(view: View) -> Flaw | None:
        return None if view.constants and view.constants[0].dtype == "FLOAT16" else plain.test(view)

    return Check("version", test)


def scales_known() -> Check:
    """What is dequantised has scales: one if it is a runtime tensor."""

    def test(view: View) -> Flaw | None:
        x = view.operands[0]
        if x.dtype == "INT16":
            return "reads INT16; INT8, UINT8, INT4 and constants of FLOAT16 are taken", (x,)
        if x.dtype == "FLOAT16" and x.data is not None:
            return None
        wanted = has_scales(x) == 1 if x.data is None else has_scales(x) > 0
        return None if wanted else (f"reads {x.dtype} with {has_scales(x)} scales; one is wanted", (x,))

    return Check("quantisation", test)


def dequantize_constant_shape() -> Check:
    """A dequantised constant of rank 2 or 3 begins with a dimension of 1, or has four.

    Its value is laid out from the right and what reads it expects it from the left: "Shape mismatch".
    """

    def test(view: View) -> Flaw | None:
        x = view.operands[0]
        if x.data is None or x.dtype == "FLOAT16":
            return None
        if len(x.shape) not in (2, 3, 4):
            return f"reads a constant of shape {listed(x.shape)}; rank 2, 3 or 4 is taken", (x,)
        if len(x.shape) < 4 and x.shape[0] > 1:
            return f"reads a constant of shape {listed(x.shape)}, which the graph is refused for", (x,)
        return None

    return Check("graph", test)
