"""Attention masks are clipped to numbers that float16 can represent."""

import numpy as np

from msd.graph.rewrite import SMALL, Build, Skip, Tensor, const, op, rule, skip, var

FLOOR = np.float32(-30000.0)


@rule("lower", op.SOFTMAX(op.ADD(var("x"), const("mask")), beta=1.0))
def clip_mask(new: Build, x: Tensor, mask: Tensor) -> Tensor | Skip:
    """SOFTMAX(x + mask)  =>  SOFTMAX(x + max(mask, -30000)), equal for every row with an unmasked position

    float16 ends at 65504: -inf minus -inf is NaN there, and -3.4e38 is -inf.
    """
    if mask.size > SMALL:
        return skip("the mask is too large to read")
    if not (mask.values() < FLOOR).any():
        return skip("float16 can represent all its numbers")
    return new.SOFTMAX(new.ADD(x, new.const(np.maximum(mask.values(), FLOOR), mask.name)), beta=1.0)
