"""Reshapes from rank 4 move behind element-wise operators, so that these run at rank 4."""

from msd.graph.rewrite import ANY, Build, Op, Skip, Tensor, any_op, const, op, rule, skip, var

UNARY = (
    *("ABS", "COS", "EXP", "GELU", "LOGISTIC", "NEG", "RELU", "RELU6", "RSQRT", "SIN", "SOFTMAX", "SQRT"),
    *("SQUARE", "TANH"),
)
CONV = op.CONV_2D(
    var("image"),
    var("w"),
    var("b"),
    padding=ANY,
    dilation_w_factor=ANY,
    dilation_h_factor=ANY,
    stride_w=ANY,
    stride_h=ANY,
    fused_activation_function=ANY,
).named("conv")
BINARY = ("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB")


def _source(x: Tensor) -> Tensor | None:
    """Return the input of the reshape that produces `x`, if it has rank 4 and the same last axis."""
    if x.producer is None or x.producer.kind != "RESHAPE":
        return None
    before = x.producer.operands[0]
    return before if len(before.shape) == 4 and before.shape[-1:] == x.shape[-1:] else None


@rule("lower cleanup", any_op(*UNARY, name="y"))
def sink_reshape_past_unary(new: Build, y: Tensor) -> Tensor | Skip:
    """f(RESHAPE(x))  =>  RESHAPE(f(x))"""
    x = _source(y.maker.operands[0])
    if x is None:
        return skip("its input is not reshaped from rank 4")
    return new.RESHAPE(new.again(y.maker, x), list(y.shape))


@rule("lower cleanup", any_op("MEAN", "SUM", "REDUCE_MAX", name="y"))
def sink_reshape_past_reduction(new: Build, y: Tensor) -> Tensor | Skip:
    """MEAN(RESHAPE(x)) over the last axis  =>  RESHAPE(MEAN(x))"""
    reshaped, axes = y.maker.operands
    x = _source(reshaped)
    rank = len(reshaped.shape)
    if x is None or not _is_last(axes, rank):
        return skip("its input is not reshaped from rank 4, or another axis than the last is reduced")
    if not y.maker.attrs["keep_dims"]:
        return skip("it drops the axis")
    return new.RESHAPE(new.again(y.maker, x, new.const([3])), list(y.shape))


def _is_last(axes: Tensor, rank: int) -> bool:
    return axes.data is not None and [int(a) % rank for a in axes.values().reshape(-1)] == [rank - 1]


@rule("lower cleanup", any_op(*BINARY, name="y"))
def sink_reshape_past_binary(new: Build, y: Tensor) -> Tensor | Skip:
    """f(RESHAPE(a), RESHAPE(b))  =>  RESHAPE(f(a, b)), where either may also be a constant"""
    a, b = y.maker.operands
    if (left := _source(a)) is not None and (partner := _partner(new, left, a, b)) is not None:
        return new.RESHAPE(new.again(y.maker, left, partner), list(y.shape))
    if (right := _source(b)) is not None and (partner := _partner(new, right, b, a)) is not None:
        return new.RESHAPE(new.again(y.maker, partner, right), list(y.shape))
    return skip("its operands are not reshaped from one rank 4 shape")


def _partner(new: Build, x: Tensor, reshaped: Tensor, other: Tensor) -> Tensor | None:
    """Return `other`, the operand beside `reshaped`, in the shape that fits `x`."""
    if other.data is not None:
        return _constant_partner(new, x, other)
    source = _source(other)
    if source is not None and source.shape[:-1] == x.shape[:-1] and other.shape[:-1] == reshaped.shape[:-1]:
        return source
    if other.shape == reshaped.shape and _is_outer(x, other if source is None else source):
        return new.RESHAPE(other, list(x.shape))
    return None


def _constant_partner(new: Build, x: Tensor, other: Tensor) -> Tensor | None:
    """Return the constant if it fits every shape: one number, or one per channel."""
    if other.size == 1 or other.shape == x.shape[-1:]:
        return other
    if other.size == x.shape[-1] == other.shape[-1]:
        return new.const(other.weights.reshape((other.size,)), other.name)
    return None


def _is_outer(x: Tensor, other: Tensor) -> bool:
    """Whether `x` decides the shape: the rank 4 shape with more rows does, whatever the operand order."""
    return len(other.shape) != 4 or x.shape[1] > other.shape[1]


@rule("lower cleanup", any_op("CONV_2D", name="y"))
def sink_reshape_past_conv(new: Build, y: Tensor) -> Tensor | Skip:
    """CONV_2D 1x1 (RESHAPE(x))  =>  RESHAPE(CONV_2D 1x1 (x))"""
    image, *filters = y.maker.operands
    x = _source(image)
    if x is None or not _is_pointwise(y.maker):
        return skip("its input is not reshaped from rank 4, or it is not 1x1")
    if x.shape[0] != y.shape[0]:
        return skip("the batch changes")
    return new.RESHAPE(new.again(y.maker, x, *filters), list(y.shape))


@rule("lower cleanup", op.RESHAPE(CONV, const("shape"), new_shape=ANY).named("y"))
def hoist_reshape_before_conv(
    new: Build, image: Tensor, w: Tensor, b: Tensor, conv: Tensor, y: Tensor
) -> Tensor | Skip:
    """RESHAPE(CONV_2D 1x1 (RESHAPE(x)))  =>  CONV_2D 1x1 (RESHAPE(x)), when the last axis stays"""
    if len(y.shape) != 4 or y.shape[-1] != conv.shape[-1] or not _is_pointwise(conv.maker):
        return skip("the last axis changes, the result is not of rank 4, or the filter is not 1x1")
    reshape = image.producer
    if reshape is None or reshape.kind != "RESHAPE" or _source(image) is not None:
        return skip("the convolution's input is not reshaped from heads")
    before = new.RESHAPE(reshape.operands[0], [*y.shape[:3], image.shape[3]])
    return new.again(conv.maker, before, w, b)


def _is_pointwise(conv: Op) -> bool:
    filters = conv.operands[1]
    return filters.shape[1:3] == (1, 1) and conv.attrs["stride_h"] == conv.attrs["stride_w"] == 1
