"""Masks with numbers that float16 cannot hold get ones that it can."""

import numpy as np

from msd.rewrite import Build, Skip, Tensor, const, op, rule, skip, var

FLOOR = np.float32(-30000.0)


@rule("lower", op.ADD(var("x"), const("mask")))
def clip_mask(new: Build, x: Tensor, mask: Tensor) -> Tensor | Skip:
    """x + mask with -inf or -3.4e38 in it  =>  x + max(mask, -30000), which no softmax can tell apart

    float16 ends at 65504: -inf minus -inf is NaN there, and -3.4e38 is -inf.
    """
    if mask.size < 4 or len(mask.shape) < 2 or mask.dtype != "FLOAT32" or mask.quant:
        return skip("the constant is not a mask")
    if mask.weights.size > 1 << 16 or not (mask.values() < FLOOR).any():
        return skip("float16 holds all its numbers")
    if (mask.values() > 0).any():
        return skip("the constant is not a mask: it has positive numbers")
    return new.ADD(x, new.const(np.maximum(mask.values(), FLOOR), mask.name))
