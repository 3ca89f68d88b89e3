"""Checks for TensorFlow Lite's GPU delegate (tflite-gpu) alone.

It runs only on a phone's GPU, so nothing here is measured by us: each check comes from the delegate's source
or from a report about devices.
"""

from __future__ import annotations

from msd.files.wording import counted, listed
from msd.graph.prediction.rules.checks import Check, Flaw
from msd.graph.prediction.rules.merged_padding import merged_padding
from msd.graph.prediction.rules.miscomputed import (
    HALF_SUM,
    LAID_OUT,
    RAW_HALVES,
    TANH_BEHIND,
    condition_laid_out,
    softmax_of_rank_one,
    wrong,
)
from msd.graph.prediction.rules.view import FLOATS, View, from_left, scale_count, shape_text

BUILDER = "tflite/delegates/gpu/common/model_builder.cc"
MERGER = "tflite/delegates/gpu/common/transformations/merge_padding_with.cc"
ELEMENTWISE = "tflite/delegates/gpu/gl/kernels/elementwise.cc"
SHAPED = "tflite/delegates/gpu/common/model_builder_helper.cc: ExtractTensorShape"
READERS = frozenset({"CAST", "SELECT", "SELECT_V2"})
"""Operators that may read the result of a comparison."""

READABLE = frozenset({"FLOAT32", "FLOAT16", "INT8", "INT16", "UINT8", "INT32"})
"""`CreateVectorCopyData<float>` in model_builder_helper.cc."""

SUBBYTE = frozenset({"INT2", "INT4", "UINT4"})

CASTS = frozenset(
    {
        *(("BOOL", "FLOAT16"), ("BOOL", "FLOAT32"), ("FLOAT16", "BOOL"), ("FLOAT32", "BOOL")),
        *((a, b) for a in ("FLOAT32", "INT32") for b in ("FLOAT32", "INT32")),
    }
)


def standard_fits(longer: tuple[int, ...], shorter: tuple[int, ...]) -> bool:
    """Whether kStandard supports the broadcast: [1,x,y,z] with [x,y,z] or [1,1], or [b,x,y,c] with [b,c]."""
    if len(longer) != 4:
        return False
    if len(shorter) == 3:
        return longer[0] == 1
    return (longer[0] == 1 and shorter == (1, 1)) or (longer[0], longer[3]) == shorter


def cast_types() -> Check:
    """The cast is between bool and floats, or between float32 and int32."""

    def test(view: View) -> Flaw | None:
        pair = view.operands[0].dtype, view.outputs[0].dtype
        clause = f"casts {pair[0]} to {pair[1]}; bool and floats, or FLOAT32 and INT32 are supported"
        return None if pair in CASTS else (clause, (view.operands[0], view.outputs[0]))

    return Check("dtype", test)


def consumed_as_float() -> Check:
    """Exactly one CAST or SELECT, with a float result, reads a comparison's result."""

    def test(view: View) -> Flaw | None:
        readers = list(view.outputs[0].uses)
        if len(readers) == 1:
            ((reader, _),) = readers
            if reader.kind in READERS and reader.outputs[0].dtype in FLOATS:
                return None
        return "must have exactly one reader, a CAST or SELECT to float", view.outputs

    return Check("consumer", test)


def constant_second_matrix() -> Check:
    """A constant matrix is the second operand and has rank 2."""

    def test(view: View) -> Flaw | None:
        w = view.operands[1]
        if len(view.runtime) == 2 or (w.data is not None and view.is_runtime(0) and len(w.shape) == 2):
            return None
        return "multiplies by a constant that is not the second operand with rank 2", view.constants

    return Check("graph", test, fix="use_fully_connected")


def constant_of_one_image() -> Check:
    """At least one operand is not constant, and a constant has batch 1."""

    def test(view: View) -> Flaw | None:
        if not view.runtime:
            return "reads constants only", view.constants
        four = tuple(t for t in view.constants if len(t.shape) > 3 and t.size > 1 and t.shape[0] > 1)
        shapes = ", ".join(shape_text(t.shape) for t in four)
        return (f"has a constant of shape {shapes}; batch 1 is supported", four) if four else None

    return Check("constness", test)


def whole_groups() -> Check:
    """The weights of a convolution cover all input channels, or are constant and cover whole groups."""

    def test(view: View) -> Flaw | None:
        x, w = view.operands[:2]
        reads, channels = w.shape[3], from_left(x.shape)[3]
        if reads and channels % reads == 0 and (w.data is not None or reads == channels):
            return None
        kind = "constant" if w.data else "runtime"
        return f"has {kind} weights for {reads} of {counted(channels, 'channel')}", (w,)

    return Check("groups", test)


def readable_weights() -> Check:
    """Constant weights have a type that the delegate converts to float when it loads a file."""

    def test(view: View) -> Flaw | None:
        w = view.input(1)
        if w is None or w.data is None or w.dtype in READABLE:
            return None
        return f"has weights of {w.dtype}; {', '.join(sorted(READABLE))} are supported", (w,)

    return Check("graph", test)


def readable_constants() -> Check:
    """No constant is of small integers that the delegate cannot convert, whichever operator reads it.

    A DEQUANTIZE of one makes no difference: the delegate reads its constant by the same function.
    """

    def test(view: View) -> Flaw | None:
        small = tuple(t for t in view.constants if t.dtype in SUBBYTE)
        dtypes = ", ".join(dict.fromkeys(t.dtype for t in small))
        clause = f"reads a constant of {dtypes}; {', '.join(sorted(READABLE))} are supported"
        return (clause, small) if small else None

    return Check("graph", test)


def kept_dimensions() -> Check:
    """With keep_num_dims the result has the rank of the input."""

    def test(view: View) -> Flaw | None:
        x, y = view.operands[0], view.outputs[0]
        clause = f"has keep_num_dims, but turns {shape_text(x.shape)} into {shape_text(y.shape)}"
        return (clause, (x, y)) if view.attrs["keep_num_dims"] and len(x.shape) != len(y.shape) else None

    return Check("rank", test)


def dense_channels() -> Check:
    """Constant weights are a matrix as wide as the input's channels, aligned from the left."""

    def test(view: View) -> Flaw | None:
        x, w = view.operands[:2]
        if w.data is None or (len(w.shape) == 2 and from_left(x.shape)[3] == w.shape[1]):
            return None
        clause = f"has weights of shape {shape_text(w.shape)} for an input of {shape_text(x.shape)}"
        return f"{clause}; the numbers of channels must be equal", (x, w)

    return Check("graph", test, fix="use_conv")


def condition_fits() -> Check:
    """The condition broadcasts to the result."""

    def test(view: View) -> Flaw | None:
        condition = view.operands[0]
        shape, mask = view.outputs[0].shape, condition.shape
        ending = shape[len(shape) - len(mask) :] if len(mask) <= len(shape) else ()
        if mask and not (ending and all(a in (1, b) for a, b in zip(mask, ending, strict=True))):
            return f"has a condition of shape {shape_text(mask)} for {shape_text(shape)}", (condition,)
        return None

    return Check("broadcast", test)


def matrices(constant: bool) -> Check:
    """Branches of rank 2 are constant, or are runtime tensors where `constant` is false."""

    def test(view: View) -> Flaw | None:
        flat = tuple(t for t in view.operands[1:] if (t.data is None) == constant and len(t.shape) == 2)
        words = ("runtime", "constant") if constant else ("constant", "runtime")
        return (f"selects from a {words[0]} matrix; {words[1]} ones are supported", flat) if flat else None

    return Check("broadcast", test)


def one_covers_the_other() -> Check:
    """Of two operands of one rank, one is at least as large as the other along every axis."""

    def test(view: View) -> Flaw | None:
        a, b = view.operands[:2]
        pairs = list(zip(a.shape, b.shape, strict=False)) if len(a.shape) == len(b.shape) else []
        if all(m >= n for m, n in pairs) or all(m <= n for m, n in pairs):
            return None
        return f"multiplies {shape_text(a.shape)} by {shape_text(b.shape)}; one must cover the other", (a, b)

    return Check("broadcast", test)


def one_channel_multiplied() -> Check:
    """Only an input with one channel has a depth multiplier above 1."""

    def test(view: View) -> Flaw | None:
        x, y = view.operands[0], view.outputs[0]
        many = x.shape[-1] > 1 and y.shape[-1] != x.shape[-1]
        return (f"multiplies {x.shape[-1]} channels; only a single one is supported", (x,)) if many else None

    return Check("attribute", test)


def one_hot_shapes() -> Check:
    """Indices have size 1 on every axis but the batch and the last; the on and off values are scalars."""

    def test(view: View) -> Flaw | None:
        x, on, off = view.operands[0], view.operands[2], view.operands[3]
        middle = x.shape[1:-1] if len(x.shape) > 3 else x.shape[:-1]
        clause = f"has indices of shape {shape_text(x.shape)}; only batch and last dimension may exceed 1"
        if any(n != 1 for n in middle):
            return clause, (x,)
        wide = tuple(t for t in (on, off) if len(t.shape) > 1 or t.size > 1)
        return ("has on and off values that are not scalars", wide) if wide else None

    return Check("shape", test)


def _flags_ignored(view: View) -> Flaw | None:
    flags = [name for name in ("adj_x", "adj_y") if view.attrs[name]]
    clause = f"ignores {listed(flags)}; use an explicit TRANSPOSE"
    return (clause, view.operands) if flags else None


def _attention_of_rank_three(view: View) -> Flaw | None:
    low = tuple(t for t in view.runtime if len(t.shape) == 3)
    clause = "multiplies matrices of rank 3, which devices compute wrong; use rank 4"
    return (clause, low) if len(low) == 2 else None


def _ranks_mixed(view: View) -> Flaw | None:
    if len(view.runtime) != 2:
        return None
    a, b = view.runtime
    rank = len(view.outputs[0].shape)
    layouts = [(from_left(t.shape), from_left((1,) * (rank - len(t.shape)) + t.shape)) for t in (a, b)]
    if all(actual == right for actual, right in layouts):
        return None
    clause = f"broadcasts {shape_text(a.shape)} with {shape_text(b.shape)}, aligning axes from the left"
    return f"{clause}; use equal ranks", (a, b)


def _axes_dropped(view: View) -> Flaw | None:
    x, y = view.operands[0], view.outputs[0]
    if view.attrs["keep_dims"] or len(x.shape) == len(y.shape):
        return None
    return f"drops axes of {shape_text(x.shape)} without a reshape; use keep_dims", (x, y)


def _front_padded(view: View) -> Flaw | None:
    shape = view.operands[1].shape
    clause = "has paddings for three axes, which also pad the batch by 1; use four"
    return (clause, view.operands[:1]) if shape == (3, 2) else None


def _quantised_layer(view: View) -> Flaw | None:
    w = view.op.operands[1]
    maker = w.producer
    if maker is None or maker.kind != "DEQUANTIZE" or maker.operands[0].data is None:
        return None
    clause = "reads its weights from a DEQUANTIZE of integers, and converts them at every run"
    return (f"{clause}; direct integer weights are cheaper", (w,)) if scale_count(maker.operands[0]) else None


def _tanh_form(view: View) -> Flaw | None:
    if view.attrs["approximate"]:
        return None
    return "is exact, but the delegate computes its tanh form, which is up to 4.7e-4 away", ()


ADJOINT = wrong("attribute", _flags_ignored, f"{BUILDER}: BatchedMatMulOperationParser").cured_by(
    "transpose_matmul"
)
RANK_THREE = wrong("rank", _attention_of_rank_three, "LiteRT issue 8619, on devices").cured_by("lift_matmul")
MIXED = wrong("broadcast", _ranks_mixed, SHAPED).cured_by("align_ranks")
DROPPED = wrong("attribute", _axes_dropped, f"{BUILDER}: MeanOperationParser")
PADDED = wrong("layout", _front_padded, f"{BUILDER}: PadOperationParser")
TANH_FORM = Check("approximation", _tanh_form, severity="note", source=f"{ELEMENTWISE}: GELU")
CONVERTED = Check(
    "quantisation", _quantised_layer, severity="note", source=f"{BUILDER}: Conv2DOperationParser"
)

BINARY = (
    *("DIV", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "POW", "SQUARED_DIFFERENCE", "SUB"),
    *("ADD", "MUL", "EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"),
)

TFLITE_MISCOMPUTED: dict[str, tuple[Check, ...]] = {
    **dict.fromkeys(BINARY, (LAID_OUT.at(SHAPED), MIXED)),
    **dict.fromkeys(["ADD", "SUB", "MUL", "DIV"], (LAID_OUT.at(SHAPED), MIXED, TANH_BEHIND)),
    "BATCH_MATMUL": (ADJOINT, RANK_THREE),
    **dict.fromkeys(["CONV_2D", "DEPTHWISE_CONV_2D"], (RAW_HALVES, CONVERTED, TANH_BEHIND)),
    "FULLY_CONNECTED": (RAW_HALVES, CONVERTED),
    "GELU": (TANH_FORM,),
    "SOFTMAX": (wrong("layout", softmax_of_rank_one, SHAPED),),
    **dict.fromkeys(["SELECT", "SELECT_V2"], (wrong("layout", condition_laid_out, SHAPED),)),
    "PAD": (PADDED, wrong("padding", merged_padding, MERGER)),
    **dict.fromkeys(["PADV2", "MIRROR_PAD"], (PADDED,)),
    "MEAN": (DROPPED, HALF_SUM),
    "SUM": (HALF_SUM,),
}
