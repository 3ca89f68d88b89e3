"""Operators that return their input unchanged are removed."""

from msd.graph.rewrite import ANY, Build, Skip, Tensor, any_op, const, op, rule, skip, var


@rule("canonicalize cleanup", op.RESHAPE(var("x"), const("shape"), new_shape=ANY).named("y"))
def drop_reshape(new: Build, x: Tensor, y: Tensor) -> Tensor | Skip:
    """RESHAPE(x) to the same shape  =>  x"""
    return x if x.shape == y.shape else skip("the shape changes")


@rule("canonicalize cleanup", op.TRANSPOSE(var("x"), const("perm")))
def drop_transpose(new: Build, x: Tensor, perm: Tensor) -> Tensor | Skip:
    """TRANSPOSE(x) to the same order  =>  x"""
    return x if list(perm.values()) == list(range(len(x.shape))) else skip("the order changes")


@rule("canonicalize cleanup", any_op("SLICE", "STRIDED_SLICE", name="y"))
def drop_slice(new: Build, y: Tensor) -> Tensor | Skip:
    """SLICE or STRIDED_SLICE of everything  =>  its input"""
    x, strides = y.maker.operands[0], y.maker.operands[3:]
    if x.shape != y.shape or any(s.data is None or (s.values() != 1).any() for s in strides):
        return skip("it selects a part")
    return x
