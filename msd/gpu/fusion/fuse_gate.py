"""The gated feed-forward layer: two convolutions of one input, GELU, and their product."""

from msd.gpu.kinds import BIAS, FILTER, X
from msd.gpu.operations import GATES
from msd.graph.rewrite import Build, Skip, Tensor, any_op, op, rule, skip


@rule("cleanup", op.MUL(any_op("CONVOLUTION", name="value"), any_op("CONVOLUTION", name="gate")))
def fuse_gate(new: Build, value: Tensor, gate: Tensor) -> Tensor | Skip:
    """CONVOLUTION(x, v) * GELU(CONVOLUTION(x, g))  =>  CONVOLUTION(x, v, g), as arXiv 2304.11267 has it

    The GELU is exact or approximate, whichever the second convolution has.
    """
    first, second = value.maker, gate.maker
    if first.attrs["activation"] != "NONE" or second.attrs["activation"] not in GATES:
        return skip("the second is not a GELU, or the first has an activation")
    if first.inputs[X] is not second.inputs[X] or any((*first.inputs[3:], *second.inputs[3:])):
        return skip("they have different inputs, or other summands")
    same = all(first.attrs[k] == second.attrs[k] for k in first.attrs if k != "activation")
    filters = [maker.inputs[FILTER] for maker in (first, second)]
    if not same or len({(t.shape, t.dtype) for t in filters if t}) > 1 or value.shape[-1] % 4:
        return skip("their geometries or weights differ")
    inputs = (*first.inputs[: BIAS + 1], *second.inputs[FILTER : BIAS + 1], None, None, None)
    return new.again(first, *inputs, activation=second.attrs["activation"])
