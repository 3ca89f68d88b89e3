"""Consecutive layout operators are merged into one."""

from msd.graph.rewrite import ANY, Build, Skip, Tensor, const, op, rule, skip, var

INNER = op.RESHAPE(var("x"), const("first"), new_shape=ANY)


@rule("lower cleanup", op.RESHAPE(INNER, const("second"), new_shape=ANY).named("y"), shared=True)
def merge_reshapes(new: Build, x: Tensor, y: Tensor) -> Tensor:
    """RESHAPE(RESHAPE(x))  =>  RESHAPE(x)"""
    return new.RESHAPE(x, list(y.shape))


@rule(
    "lower cleanup",
    op.TRANSPOSE(op.TRANSPOSE(var("x"), const("first")), const("second")),
    shared=True,
)
def merge_transposes(new: Build, x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """TRANSPOSE(TRANSPOSE(x, p), q)  =>  TRANSPOSE(x, p[q])"""
    return new.TRANSPOSE(x, first.values()[second.values()].tolist())


@rule("lower cleanup", op.TRANSPOSE(var("x"), const("perm")).named("y"))
def reshape_for_transpose(new: Build, x: Tensor, perm: Tensor, y: Tensor) -> Tensor | Skip:
    """TRANSPOSE(x) that only moves axes of size 1  =>  RESHAPE(x)"""
    if x.producer and x.maker.kind == "TRANSPOSE":
        return skip("it merges with the transpose before it")
    moved = [i for i in perm.values() if x.shape[i] != 1]
    return new.RESHAPE(x, list(y.shape)) if moved == sorted(moved) else skip("axes larger than 1 move")
