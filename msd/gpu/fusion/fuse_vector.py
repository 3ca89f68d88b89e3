"""The sum of a convolution and one number per channel that is computed: the time embedding."""

from msd.gpu.kinds import RESIDUAL, VECTOR
from msd.graph.rewrite import Build, Skip, Tensor, any_op, op, rule, skip, var


@rule("fuse", op.ADD(any_op("CONVOLUTION", name="convolved"), var("vector")))
def fuse_vector(new: Build, convolved: Tensor, vector: Tensor) -> Tensor | Skip:
    """CONVOLUTION(x) + vector of (batch, 1, 1, channels)  =>  CONVOLUTION(x, vector)"""
    maker, (batch, *_, channels) = convolved.maker, convolved.shape
    if vector.data is not None or vector.shape not in ((batch, 1, 1, channels), (batch, channels)):
        return skip("the other summand is not computed, or not one number per channel")
    if vector.shape == convolved.shape or (len(vector.shape) == 2 and batch != 1):
        return skip("the other summand is an image")
    if maker.inputs[VECTOR] or maker.inputs[RESIDUAL] or maker.attrs["activation"] != "NONE":
        return skip("the convolution has an activation or a second summand already")
    return new.again(maker, *maker.inputs[:VECTOR], vector, None, None)
