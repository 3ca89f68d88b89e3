"""An activation behind a convolution."""

from msd.rewrite import Build, Skip, Tensor, any_op, rule, skip


@rule("fuse", any_op("SILU", "GELU", "TANH", "LOGISTIC", "RELU", name="y"))
def fuse_activation(new: Build, y: Tensor) -> Tensor | Skip:
    """SILU(CONVOLUTION(x))  =>  CONVOLUTION(x) with the activation; GELU's tanh form and others alike"""
    kind, before = y.maker.kind, y.maker.operands[0]
    maker = before.producer
    if maker is None or maker.kind != "CONVOLUTION" or len(before.uses) > 1:
        return skip("no convolution computes its argument alone")
    if kind == "GELU" and not y.maker.attrs["approximate"]:
        return skip("GELU is not in its tanh form")
    if maker.attrs["activation"] != "NONE" or maker.inputs[-1] is not None:
        return skip("the convolution has an activation or a residual already")
    return new.again(maker, *maker.inputs, activation=kind)
