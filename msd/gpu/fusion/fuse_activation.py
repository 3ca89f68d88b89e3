"""An activation behind a convolution."""

from msd.gpu.kinds import RESIDUAL, activation_of
from msd.graph.rewrite import ANY, Build, Pat, Skip, Tensor, any_op, op, rule, skip

CONVOLVED = any_op("CONVOLUTION", name="convolved")


@rule("fuse", Pat("y", ("SILU", "QUICK_GELU", "TANH", "LOGISTIC", "RELU"), (CONVOLVED,)))
def fuse_activation(new: Build, convolved: Tensor, y: Tensor) -> Tensor | Skip:
    """SILU(CONVOLUTION(x))  =>  CONVOLUTION(x) with the activation; tanh, sigmoid and RELU alike"""
    return _fused(new, convolved, y)


@rule("fuse", op.GELU(CONVOLVED, approximate=ANY).named("y"))
def fuse_gelu(new: Build, convolved: Tensor, y: Tensor) -> Tensor | Skip:
    """GELU(CONVOLUTION(x))  =>  CONVOLUTION(x) with the activation, exact or approximate as the GELU was"""
    return _fused(new, convolved, y)


def _fused(new: Build, convolved: Tensor, y: Tensor) -> Tensor | Skip:
    maker = convolved.maker
    if maker.attrs["activation"] != "NONE" or maker.inputs[RESIDUAL] is not None:
        return skip("the convolution has an activation or a residual already")
    return new.again(maker, *maker.inputs, activation=activation_of(y.maker))
