"""SiLU, which TFLite writes as a product with a sigmoid."""

from msd.graph.rewrite import Build, Tensor, op, rule, var


@rule("canonicalize", op.MUL(var("x"), op.LOGISTIC(var("x"))))
def recognise_silu(new: Build, x: Tensor) -> Tensor:
    """x * sigmoid(x)  =>  SILU(x)"""
    return new.SILU(x)
