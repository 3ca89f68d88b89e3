"""Operands of one rank: delegates line up axes from the left, NumPy from the right."""

from msd.rewrite import Build, Skip, Tensor, any_op, rule, skip

BINARY = ("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB")


@rule("lower cleanup", any_op(*BINARY, name="y"))
def align_ranks(new: Build, y: Tensor) -> Tensor | Skip:
    """f(a, b) of different ranks  =>  f(a, RESHAPE(b)) with ones in front"""
    rank = len(y.shape)
    if all(t.data is not None or len(t.shape) == rank for t in y.maker.operands):
        return skip("its runtime operands have one rank")
    return new.again(y.maker, *(_raised(new, t, rank) for t in y.maker.operands))


def _raised(new: Build, x: Tensor, rank: int) -> Tensor:
    missing = rank - len(x.shape)
    return new.RESHAPE(x, [1] * missing + list(x.shape)) if missing and x.data is None else x
