"""An activation behind a convolution."""

from msd.rewrite import Build, Pat, Skip, Tensor, any_op, op, rule, skip
from msd.webgpu.kinds import RESIDUAL

CONVOLVED = any_op("CONVOLUTION", name="convolved")


@rule("fuse", Pat("y", ("SILU", "QUICK_GELU", "TANH", "LOGISTIC", "RELU"), (CONVOLVED,)))
def fuse_activation(new: Build, convolved: Tensor, y: Tensor) -> Tensor | Skip:
    """SILU(CONVOLUTION(x))  =>  CONVOLUTION(x) with the activation; tanh, sigmoid and RELU alike"""
    return _fused(new, convolved, y.maker.kind)


@rule("fuse", op.GELU(CONVOLVED, approximate=True))
def fuse_gelu(new: Build, convolved: Tensor) -> Tensor | Skip:
    """GELU(CONVOLUTION(x)) in its tanh form  =>  CONVOLUTION(x) with the activation"""
    return _fused(new, convolved, "GELU")


def _fused(new: Build, convolved: Tensor, activation: str) -> Tensor | Skip:
    maker = convolved.maker
    if maker.attrs["activation"] != "NONE" or maker.inputs[RESIDUAL] is not None:
        return skip("the convolution has an activation or a residual already")
    return new.again(maker, *maker.inputs, activation=activation)
