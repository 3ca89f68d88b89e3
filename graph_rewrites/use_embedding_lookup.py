"""Rows of a table by number: the operator for it takes int8 tables, one scale per row."""

from msd.rewrite import Build, Skip, Tensor, const, op, rule, skip, var


@rule("lower", op.GATHER(const("table"), var("ids")).named("y"))
def use_embedding_lookup(new: Build, table: Tensor, ids: Tensor, y: Tensor) -> Tensor | Skip:
    """GATHER(table, ids)  =>  RESHAPE(EMBEDDING_LOOKUP(RESHAPE(ids, [N]), table))"""
    if len(table.shape) != 2 or ids.dtype != "INT32" or table.dtype != "FLOAT32":
        return skip("it is not rows of a plain table by 32-bit numbers")
    flat = ids if len(ids.shape) == 1 else new.RESHAPE(ids, [ids.size])
    rows = new.EMBEDDING_LOOKUP(flat, table)
    return new.RESHAPE(rows, list(y.shape))
