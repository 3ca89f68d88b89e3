"""The sum of a convolution and another image: the residual of a block."""

from msd.gpu.kinds import RESIDUAL, X
from msd.gpu.views import same_memory
from msd.graph.rewrite import Build, Skip, Tensor, any_op, op, rule, skip, var


@rule("cleanup", op.ADD(any_op("CONVOLUTION", name="convolved"), var("residual")))
def fuse_residual(new: Build, convolved: Tensor, residual: Tensor) -> Tensor | Skip:
    """CONVOLUTION(x) + residual  =>  CONVOLUTION(x, residual)"""
    maker = convolved.maker
    if residual.data is not None or residual.shape != convolved.shape:
        return skip("the other summand is no computed image of this size")
    if maker.inputs[RESIDUAL] is not None:
        return skip("the convolution has a residual already")
    if same_memory(maker.operands[X], residual):
        return skip("the convolution reads the same image, which a dispatch can bind only once")
    return new.again(maker, *maker.inputs[:RESIDUAL], residual)
