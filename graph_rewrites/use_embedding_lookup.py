"""Row gathers become EMBEDDING_LOOKUP, which supports int8 tables with one scale per row."""

from msd.graph.rewrite import Build, Skip, Tensor, const, op, rule, skip, var


@rule("lower", op.GATHER(const("table"), var("ids")).named("y"))
def use_embedding_lookup(new: Build, table: Tensor, ids: Tensor, y: Tensor) -> Tensor | Skip:
    """GATHER(table, ids)  =>  RESHAPE(EMBEDDING_LOOKUP(RESHAPE(ids, [N]), table))"""
    if len(table.shape) != 2 or ids.dtype != "INT32" or table.dtype != "FLOAT32":
        return skip("it does not gather rows of a float table by 32-bit indices")
    flat = ids if len(ids.shape) == 1 else new.RESHAPE(ids, [ids.size])
    rows = new.EMBEDDING_LOOKUP(flat, table)
    return new.RESHAPE(rows, list(y.shape))
