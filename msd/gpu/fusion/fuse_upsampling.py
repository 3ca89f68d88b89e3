"""Nearest upsampling before a convolution, which the kernels do as they read."""

from msd.gpu.kinds import X
from msd.graph.rewrite import Build, Skip, Tensor, any_op, rule, skip


@rule("fuse", any_op("CONVOLUTION", name="y"), shared=True)
def fuse_upsampling(new: Build, y: Tensor) -> Tensor | Skip:
    """CONVOLUTION(RESIZE_NEAREST_NEIGHBOR(x))  =>  CONVOLUTION(x) that reads each pixel several times"""
    large = y.maker.inputs[X]
    maker = large.producer if large is not None else None
    if maker is None or maker.kind != "RESIZE_NEAREST_NEIGHBOR" or y.maker.attrs["upsample"] != 1:
        return skip("nothing is resized before it")
    small = maker.operands[0]
    factors = {maker.outputs[0].shape[i] / small.shape[i] for i in (1, 2)}
    factor = factors.pop()
    if factors or factor != int(factor) or maker.attrs["align_corners"]:
        return skip("it is not enlarged by the same whole factor in both directions")
    return new.again(y.maker, small, *y.maker.inputs[1:], upsample=int(factor))
