"""Operators on constants are folded into the constants, lazily: nothing is loaded."""

import numpy as np

from msd.graph.rewrite import ANY, Build, Skip, Tensor, any_op, const, op, rule, skip

ARITHMETIC: dict[str, np.ufunc] = {"ADD": np.add, "MUL": np.multiply, "SUB": np.subtract}


@rule("canonicalize cleanup", op.TRANSPOSE(const("w"), const("perm")))
def fold_transpose(new: Build, w: Tensor, perm: Tensor) -> Tensor | Skip:
    """TRANSPOSE(constant)  =>  constant"""
    if w.quant:
        return skip("the constant is quantised")
    return new.const(w.weights.transpose(tuple(int(i) for i in perm.values())), w.name)


@rule("canonicalize cleanup", op.RESHAPE(const("w"), const("shape"), new_shape=ANY).named("y"))
def fold_reshape(new: Build, w: Tensor, y: Tensor) -> Tensor | Skip:
    """RESHAPE(constant)  =>  constant"""
    if w.quant:
        return skip("the constant is quantised")
    return new.const(w.weights.reshape(y.shape), w.name)


@rule("canonicalize cleanup", op.GATHER(const("w"), const("ids")).named("y"))
def fold_lookup(new: Build, w: Tensor, ids: Tensor, y: Tensor) -> Tensor | Skip:
    """GATHER(constant, constant)  =>  constant"""
    if w.quant:
        return skip("the constant is quantised")
    rows = ids.values()
    if (rows < 0).any() or (rows >= w.shape[0]).any():
        return skip("an index is out of range")
    return new.const(w.weights.rearrange("rows", lambda a: a[rows], y.shape), w.name)


@rule("canonicalize cleanup", any_op(*ARITHMETIC, name="y"))
def fold_arithmetic(new: Build, y: Tensor) -> Tensor | Skip:
    """ADD, MUL or SUB of two constants  =>  constant"""
    a, b = y.maker.operands
    if a.data is None or b.data is None:
        return skip("an operand is not constant")
    if y.maker.attrs["fused_activation_function"] != "NONE":
        return skip("an activation is attached")
    if a.dtype != "FLOAT32":
        return skip(f"{a.dtype} is not folded")
    name = y.maker.kind.lower()
    return new.const(a.weights.combine(name, ARITHMETIC[y.maker.kind], b.weights), a.name)
