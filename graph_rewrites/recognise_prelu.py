"""A ReLU with a slope for each channel, as Keras writes it, becomes PRELU."""

from msd.graph.rewrite import Build, Skip, Tensor, const, op, rule, skip, var

X = var("x")


@rule("canonicalize", op.RELU(X) + op.NEG(const("slopes")) * op.RELU(op.NEG(X)))
def recognise_prelu(new: Build, x: Tensor, slopes: Tensor) -> Tensor | Skip:
    """relu(x) + (-slopes) * relu(-x)  =>  PRELU(x, slopes), arXiv 1502.01852"""
    if not slopes.shape[-1:] == (slopes.size,) == x.shape[-1:]:
        return skip("there is not one slope for each channel")
    return new.PRELU(x, slopes)
