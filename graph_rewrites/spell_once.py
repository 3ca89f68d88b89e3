"""Equivalent expressions get one canonical form, so that later patterns need only that one."""

from msd.graph.rewrite import Build, Skip, Tensor, const, op, rule, skip, var

X, Y, TABLE = var("x"), var("y"), const("table")
WRAPPED = op.LESS(X, 0), op.ADD(X, const("rows")), X


@rule("canonicalize", op.SQUARE(op.SUB(X, Y)))
def spell_squared_difference(new: Build, x: Tensor, y: Tensor) -> Tensor:
    """SQUARE(x - y)  =>  SQUARED_DIFFERENCE(x, y)"""
    return new.SQUARED_DIFFERENCE(x, y)


@rule("canonicalize", op.ADD(X, op.NEG(Y)))
def spell_subtraction(new: Build, x: Tensor, y: Tensor) -> Tensor:
    """x + (-y)  =>  x - y"""
    return new.SUB(x, y)


def _plain_gather(new: Build, table: Tensor, x: Tensor, rows: Tensor, index: Tensor) -> Tensor | Skip:
    if rows.size != 1 or rows.values().reshape(-1)[0] != table.shape[0] or x.shape != index.shape:
        return skip("the offset of a negative index is not the number of rows")
    return new.GATHER(table, x)


@rule("canonicalize", op.GATHER(TABLE, op.SELECT(*WRAPPED).named("index")), shared=True)
def trust_index(new: Build, table: Tensor, x: Tensor, rows: Tensor, index: Tensor) -> Tensor | Skip:
    """GATHER(table, SELECT(x < 0, x + rows, x))  =>  GATHER(table, x): tokens are never negative"""
    return _plain_gather(new, table, x, rows, index)


@rule("canonicalize", op.GATHER(TABLE, op.SELECT_V2(*WRAPPED).named("index")), shared=True)
def trust_index_v2(new: Build, table: Tensor, x: Tensor, rows: Tensor, index: Tensor) -> Tensor | Skip:
    """GATHER(table, SELECT_V2(x < 0, x + rows, x))  =>  GATHER(table, x): tokens are never negative"""
    return _plain_gather(new, table, x, rows, index)
