"""Operators on rank below 4 run at rank 4, in the delegates' layout: (B, N, C) is (B, 1, N, C)."""

from msd.graph.rewrite import Build, Skip, Tensor, any_op, rule, skip

PLACEWISE = (
    *("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB"),
    *("ABS", "COS", "EXP", "GELU", "LOGISTIC", "NEG", "RELU", "RELU6", "RSQRT", "SIN", "SQRT", "SQUARE"),
    "TANH",
)


@rule("cleanup", any_op(*PLACEWISE, name="y"))
def raise_rank(new: Build, y: Tensor) -> Tensor | Skip:
    """f(a, b) of rank 1 to 3  =>  RESHAPE(f(RESHAPE(a), RESHAPE(b))) of rank 4"""
    rank, operands = len(y.shape), y.maker.operands
    if not 1 <= rank <= 3 or y.dtype != "FLOAT32":
        return skip("it is of rank 4, or not of floats")
    if {len(t.shape) for t in operands if t.data is None} != {rank}:
        return skip("its runtime operands differ in rank, or there are none")
    return new.RESHAPE(new.again(y.maker, *(_raised(new, t, rank) for t in operands)), list(y.shape))


@rule("cleanup", any_op("MEAN", "SUM", "REDUCE_MAX", "SOFTMAX", name="y"))
def raise_rank_of_reduction(new: Build, y: Tensor) -> Tensor | Skip:
    """MEAN or SOFTMAX of rank 1 to 3 over the last axis  =>  the same of rank 4"""
    x, *axes = y.maker.operands
    rank = len(x.shape)
    if not 1 <= rank <= 3 or len(y.shape) != rank or x.data is not None:
        return skip("it is of rank 4, drops an axis, or is of a constant")
    if not all(_is_last(a, rank) for a in axes):
        return skip("another axis than the last is reduced")
    last = [new.const([3])] if axes else []
    return new.RESHAPE(new.again(y.maker, _raised(new, x, rank), *last), list(y.shape))


def _is_last(axes: Tensor, rank: int) -> bool:
    return axes.data is not None and [int(a) % rank for a in axes.values().reshape(-1)] == [rank - 1]


def _raised(new: Build, x: Tensor, rank: int) -> Tensor:
    """Return `x`, which has `rank` or broadcasts to it, at rank 4."""
    *front, channels = (1,) * (rank - len(x.shape)) + x.shape
    batch, places = (*front, 1, 1)[:2]
    if x.data is None:
        return new.RESHAPE(x, [batch, 1, places, channels])
    return x if x.size == 1 else new.const(x.weights.reshape((batch, 1, places, channels)), x.name)
