"""Checks for operators that a delegate runs but computes, or may compute, differently from the CPU.

Those for litert-gpu were all observed on the real delegate (docs/results/oracle.json). Those for tflite-gpu
come from its source or from reports about devices, as each states.
"""

from __future__ import annotations

import math
from dataclasses import replace

from msd.files.wording import counted, listed
from msd.graph.ir import Tensor
from msd.graph.prediction.rules.by_release import IDS_OF_RANK_TWO, LOWER_RANK_FIRST, TOP_OF_RANK_ONE
from msd.graph.prediction.rules.checks import Check, Flaw, Test
from msd.graph.prediction.rules.layers import is_layer
from msd.graph.prediction.rules.merged_padding import merged_padding
from msd.graph.prediction.rules.view import View, from_left, from_right, numbers, scale_count, shape_text

MEASURED = "measured with ai-edge-litert 2.3.0"
LARGEST_HALF = 65504.0
"""The largest float16."""

BINARY = (
    *("ADD", "DIV", "EQUAL", "FLOOR_DIV", "FLOOR_MOD", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"),
    *("MAXIMUM", "MINIMUM", "MUL", "NOT_EQUAL", "POW", "SQUARED_DIFFERENCE", "SUB"),
)


def wrong(code: str, test: Test, source: str = MEASURED) -> Check:
    """Return a check whose failures the delegate runs and computes wrong."""
    return Check(code, test, severity="wrong", source=source)


def _constant_laid_out(view: View) -> Flaw | None:
    """The delegate aligns constants from the right and runtime tensors from the left."""
    if len(view.runtime) != 1 or len(view.constants) != 1:
        return None
    (x,), (c,), y = view.runtime, view.constants, view.outputs[0]
    front = (1,) * (len(y.shape) - len(x.shape)), (1,) * (len(y.shape) - len(c.shape))
    right = from_left(front[0] + x.shape), from_left(front[1] + c.shape)
    actual = from_left(x.shape), from_right(c.shape)
    if right == actual and (actual[1][0] == 1 or actual[0][0] > 1):
        return None
    clause = f"broadcasts a constant of shape {shape_text(c.shape)} with {shape_text(x.shape)}"
    return f"{clause}, which aligns other axes than NumPy's rule; use rank 4", (c,)


def softmax_of_rank_one(view: View) -> Flaw | None:
    """The delegate reads a vector as a batch of single channels."""
    x = view.operands[0]
    clause = f"has shape {shape_text(x.shape)}, in which the delegate normalises every number alone"
    return (f"{clause}; use rank 4", (x,)) if len(x.shape) < 2 else None


def _odd_padding(view: View) -> Flaw | None:
    """The delegate computes the padding of a convolution, not of a transposed one."""
    w, x, y = view.input(1), view.input(2), view.outputs[0]
    if view.attrs["padding"] != "SAME" or w is None or x is None:
        return None
    for axis, step in ((1, view.attrs["stride_h"]), (2, view.attrs["stride_w"])):
        size, kernel = x.shape[axis], w.shape[axis]
        right = max(0, (size - 1) * step + kernel - y.shape[axis]) // 2
        actual = max(0, step * (-(-size // step) - 1) + kernel - size) // 2
        if right != actual:
            clause = f"pads {shape_text(x.shape)} by {actual} in front of axis {axis}; {right} is right"
            return clause, (x,)
    return None


def _dense_channels(view: View) -> Flaw | None:
    """The delegate multiplies the last axis of the input after aligning its axes from the left."""
    x, w = view.operands[:2]
    if w.data is None:
        clause = "has runtime weights and a bias, which the delegate ignores"
        return (clause, view.constants) if view.constants else None
    if from_left(x.shape)[3] != w.shape[-1]:
        clause = f"multiplies {shape_text(x.shape)} by weights with {counted(w.shape[-1], 'input')}"
        return f"{clause}; the last axis of rank 2 to 4 must be that long", (x, w)
    y = view.outputs[0]
    if scale_count(w) and (*from_left(x.shape)[:3], w.shape[0]) != from_left(y.shape):
        return f"turns {shape_text(x.shape)} into {shape_text(y.shape)} with integer weights", (x, y)
    return None


def _pointwise_steps(view: View) -> Flaw | None:
    """A 1×1 convolution with small integer weights becomes a layer, which has no strides and no groups."""
    x, w = view.operands[:2]
    if not is_layer(w):
        return None
    steps = view.attrs["stride_h"], view.attrs["stride_w"]
    groups = x.shape[3] // max(1, w.shape[3])
    if steps == (1, 1) and groups == 1:
        return None
    clause = f"has 1×1 weights of {w.dtype}, strides {shape_text(steps)} and {counted(groups, 'group')}"
    return f"{clause}; such weights need strides of 1 and one group", (w,)


def _matmul_broadcast(view: View) -> Flaw | None:
    a, b = view.operands
    if b.data is not None and len(b.shape) == 2:
        each = (("adj_x", a), ("adj_y", b))
        flagged = [name for name, t in each if view.attrs[name] and t.shape[-2:] != (1, 1)]
        clause = f"multiplies by a constant matrix and ignores {listed(flagged)}"
        return (clause, (b,)) if flagged else None
    if from_left(a.shape)[:2] != from_left(b.shape)[:2] and _lead(a.shape) != _lead(b.shape):
        clause = f"broadcasts {shape_text(b.shape)} with {shape_text(a.shape)}"
        return f"{clause}; use equal leading dimensions", (a, b)
    return None


def _lead(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (1, 1, *shape[:-2])[-2:]


def condition_laid_out(view: View) -> Flaw | None:
    """The delegate aligns a condition of lower rank from the left."""
    condition, y = view.operands[0], view.outputs[0]
    ones = (1,) * (len(y.shape) - len(condition.shape))
    if from_left(condition.shape) == from_left(ones + condition.shape):
        return None
    clause = f"has a condition of shape {shape_text(condition.shape)} for {shape_text(y.shape)}"
    return f"{clause}; use equal ranks", (condition,)


def _three_paddings(view: View) -> Flaw | None:
    """Of rank 3 the batch's paddings are read as the height's: right for a batch of 1 that is not padded."""
    x, pads = view.operands[0], numbers(view.input(1))
    if len(x.shape) != 3 or pads is None or (x.shape[0] == 1 and not any(pads[:2])):
        return None
    clause = f"pads {shape_text(x.shape)}, whose axes the delegate reads as height, width and channels"
    return f"{clause}; use rank 4", (x,)


def _one_image_padded(view: View) -> Flaw | None:
    x, pads = view.operands[0], numbers(view.input(1))
    if len(x.shape) != 4 or x.shape[0] != 1 or pads is None or not any(pads[:2]):
        return None
    return "pads a batch of 1, and the delegate repeats that image in place of the padding", (x,)


def _reversed_channels(view: View) -> Flaw | None:
    """The delegate reverses whole groups of four channels, the last one with what fills it up."""
    x, axes = view.operands[0], numbers(view.input(1)) or []
    rank, channels = len(x.shape), x.shape[-1] if x.shape else 1
    if rank < 2 or channels <= 4 or channels % 4 == 0 or rank - 1 not in {axis % rank for axis in axes}:
        return None
    return f"reverses {channels} channels; above 4 their number must be a multiple of 4", (x,)


def _largest_of_channels(view: View) -> Flaw | None:
    """The zeros that fill the last group of four channels up are searched as well."""
    x, axes = view.operands[0], numbers(view.input(1)) or []
    rank, channels = len(x.shape), x.shape[-1] if x.shape else 4
    if rank < 2 or channels % 4 == 0 or rank - 1 not in {axis % rank for axis in axes}:
        return None
    clause = f"searches {counted(channels, 'channel')} and the zeros that fill them up to a multiple of 4"
    return f"{clause}, which win where every number is negative", (x,)


def _one_scale(view: View) -> Flaw | None:
    table = view.operands[1]
    clause = f"has a table of {table.dtype} with one scale; use one per row"
    return (clause, (table,)) if scale_count(table) == 1 and table.shape[0] > 1 else None


def _odd_rows(view: View) -> Flaw | None:
    """Right on the GPU, but TensorFlow Lite's CPU starts each row at a whole byte."""
    table = view.operands[1]
    numbers = counted(table.shape[-1], "number")
    clause = f"has rows of {numbers} of {table.dtype}, which the CPU reads from wrong places"
    whole = {"INT4": "an even number", "INT2": "a multiple of four"}.get(table.dtype)
    return (f"{clause}; use {whole}", (table,)) if odd_rows(table) else None


def odd_rows(table: Tensor) -> bool:
    """Whether rows of a table start in the middle of a byte."""
    bits = {"INT4": 4, "INT2": 2}.get(table.dtype, 8)
    return len(table.shape) > 1 and math.prod(table.shape[1:]) * bits % 8 != 0


def _update_of_low_rank(view: View) -> Flaw | None:
    x = view.operands[0]
    clause = f"writes into shape {shape_text(x.shape)} at a wrong place; use rank 4"
    return (clause, (x,)) if len(x.shape) < 4 else None


def _cumulated(view: View) -> Flaw | None:
    x, axis = view.operands[0], (numbers(view.input(1)) or [0])[0]
    if view.attrs["exclusive"] or view.attrs["reverse"]:
        return "ignores exclusive and reverse", ()
    first = axis % max(1, len(x.shape)) == 0 and len(x.shape) < 4
    clause = f"sums along the first axis of {shape_text(x.shape)}, which has no effect; use rank 4"
    return (clause, (x,)) if first and x.shape[0] > 1 else None


def _one_hot_integers(view: View) -> Flaw | None:
    y = view.outputs[0]
    return ("makes INT32; use FLOAT32", (y,)) if y.dtype == "INT32" else None


def _tanh_behind(view: View) -> Flaw | None:
    if view.attrs["fused_activation_function"] != "TANH":
        return None
    return "has a fused TANH, which the delegate computes and TensorFlow Lite's CPU omits", ()


def _half_sum(view: View) -> Flaw | None:
    """A sum of many numbers of size 1 may exceed float16's range."""
    x, axes = view.operands[0], numbers(view.input(1))
    if axes is None or not x.shape:
        return None
    count = 1
    for axis in {a % len(x.shape) for a in axes}:
        count *= x.shape[axis]
    if count <= LARGEST_HALF / 16:
        return None
    clause = f"adds {count} numbers, which in float16 overflow where they average {LARGEST_HALF / count:.3g}"
    return f"{clause}; scale or split the sum", (x,)


def raw_halves(view: View) -> Flaw | None:
    """Right on the GPU, but TensorFlow Lite's CPU reads them as float32."""
    halves = tuple(t for t in view.op.operands if t.data is not None and t.dtype == "FLOAT16")
    clause = "reads FLOAT16 constants without a DEQUANTIZE, which the CPU reads as float32"
    return (clause, halves) if halves else None


LAID_OUT = wrong("layout", _constant_laid_out).cured_by("raise_rank")
RAW_HALVES = replace(wrong("float16", raw_halves), severity="note")
TANH_BEHIND = replace(wrong("activation", _tanh_behind), severity="note")
ODD_ROWS = replace(wrong("quantisation", _odd_rows), severity="note")
PADS = (wrong("layout", _three_paddings), wrong("layout", _one_image_padded))
HALF_SUM = Check("float16", _half_sum, severity="note", source="LiteRT issue 9249, and arithmetic")

LITERT_MISCOMPUTED: dict[str, tuple[Check, ...]] = {
    **dict.fromkeys(BINARY, (LAID_OUT,)),
    **dict.fromkeys(["SUB", "DIV"], (LAID_OUT, TANH_BEHIND)),
    **dict.fromkeys(["ADD", "MUL"], (LAID_OUT, LOWER_RANK_FIRST, TANH_BEHIND)),
    "TOPK_V2": (TOP_OF_RANK_ONE,),
    "ONE_HOT": (IDS_OF_RANK_TWO, wrong("dtype", _one_hot_integers).since("2.4.0")),
    "CONV_2D": (wrong("attribute", _pointwise_steps), RAW_HALVES, TANH_BEHIND),
    "DEPTHWISE_CONV_2D": (RAW_HALVES, TANH_BEHIND),
    "SOFTMAX": (wrong("layout", softmax_of_rank_one).cured_by("raise_rank_of_reduction"),),
    "TRANSPOSE_CONV": (wrong("padding", _odd_padding),),
    "FULLY_CONNECTED": (wrong("layout", _dense_channels).cured_by("use_conv"),),
    "BATCH_MATMUL": (wrong("broadcast", _matmul_broadcast),),
    **dict.fromkeys(["SELECT", "SELECT_V2"], (wrong("layout", condition_laid_out),)),
    **dict.fromkeys(["PAD", "PADV2"], (*PADS, wrong("padding", merged_padding))),
    "MIRROR_PAD": PADS,
    "REVERSE_V2": (wrong("layout", _reversed_channels),),
    "ARG_MAX": (wrong("layout", _largest_of_channels),),
    "EMBEDDING_LOOKUP": (wrong("quantisation", _one_scale), ODD_ROWS),
    "DYNAMIC_UPDATE_SLICE": (wrong("layout", _update_of_low_rank),),
    "CUMSUM": (wrong("layout", _cumulated),),
    **dict.fromkeys(["MEAN", "SUM"], (HALF_SUM,)),
}
