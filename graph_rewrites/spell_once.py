"""One spelling for what can be written in several ways, so that later patterns need only one."""

from msd.rewrite import Build, Tensor, const, op, rule, var

X, Y = var("x"), var("y")


@rule("canonicalize", op.SQUARE(op.SUB(X, Y)))
def spell_squared_difference(new: Build, x: Tensor, y: Tensor) -> Tensor:
    """SQUARE(x - y)  =>  SQUARED_DIFFERENCE(x, y)"""
    return new.SQUARED_DIFFERENCE(x, y)


@rule("canonicalize", op.ADD(X, op.NEG(Y)))
def spell_subtraction(new: Build, x: Tensor, y: Tensor) -> Tensor:
    """x + (-y)  =>  x - y"""
    return new.SUB(x, y)


@rule("canonicalize", op.SELECT(op.LESS(X, 0), op.ADD(X, const("rows")), X))
def trust_index(new: Build, x: Tensor, rows: Tensor) -> Tensor:
    """SELECT(x < 0, x + rows, x)  =>  x, because an index into a table of embeddings is never negative"""
    return x


@rule("canonicalize", op.SELECT_V2(op.LESS(X, 0), op.ADD(X, const("rows")), X))
def trust_index_v2(new: Build, x: Tensor, rows: Tensor) -> Tensor:
    """SELECT_V2(x < 0, x + rows, x)  =>  x, because an index into a table of embeddings is never negative"""
    return x
