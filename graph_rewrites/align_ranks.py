"""Operands of equal rank: delegates align axes from the left, NumPy from the right."""

from msd.graph.rewrite import Build, Skip, Tensor, any_op, rule, skip

BINARY = ("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB")


@rule("lower cleanup", any_op(*BINARY, name="y"))
def align_ranks(new: Build, y: Tensor) -> Tensor | Skip:
    """f(a, b) of different ranks  =>  f(a, RESHAPE(b)) with leading ones; constants of rank 0 and 1 stay"""
    rank = len(y.shape)
    if all(_fits(t, rank) for t in y.maker.operands):
        return skip("its operands have the same rank")
    return new.again(y.maker, *(t if _fits(t, rank) else _raised(new, t, rank) for t in y.maker.operands))


def _fits(x: Tensor, rank: int) -> bool:
    """Whether delegates align its axes correctly: scalars have none, and vectors are always channels."""
    return len(x.shape) == rank or (x.data is not None and (len(x.shape) < 2 or x.quant is not None))


def _raised(new: Build, x: Tensor, rank: int) -> Tensor:
    shape = [1] * (rank - len(x.shape)) + list(x.shape)
    return new.RESHAPE(x, shape) if x.data is None else new.const(x.weights.reshape(tuple(shape)), x.name)
