"""Padding before a convolution, which the kernels do themselves."""

from msd.gpu.kinds import X
from msd.graph.rewrite import Build, Skip, Tensor, any_op, rule, skip


@rule("fuse", any_op("CONVOLUTION", name="y"), shared=True)
def fuse_padding(new: Build, y: Tensor) -> Tensor | Skip:
    """CONVOLUTION(PAD(x))  =>  CONVOLUTION(x) with more padding"""
    attrs, padded = y.maker.attrs, y.maker.inputs[X]
    maker = padded.producer if padded is not None else None
    if maker is None or maker.kind != "PAD" or attrs["upsample"] != 1:
        return skip("nothing is padded before it")
    if maker.operands[1].data is None:
        return skip("the amounts are computed")
    amounts = maker.operands[1].values()
    if amounts[0].any() or amounts[3].any():
        return skip("batches or channels are padded")
    pad = (attrs["pad"][0] + int(amounts[1][0]), attrs["pad"][1] + int(amounts[2][0]))
    return new.again(y.maker, maker.operands[0], *y.maker.inputs[1:], pad=pad)
