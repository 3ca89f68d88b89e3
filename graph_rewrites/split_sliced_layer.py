"""A layer whose result is only taken apart is several layers (GEGLU, joint projections)."""

from msd.rewrite import Build, Op, Skip, Tensor, any_op, rule, skip

PARTS = ("SPLIT", "SLICE", "STRIDED_SLICE")
LAYERS = ("CONV_2D", "FULLY_CONNECTED")


@rule("canonicalize", any_op(*PARTS, name="y"))
def split_sliced_layer(new: Build, y: Tensor) -> Tensor | Skip:
    """SPLIT or SLICE of CONV_2D or FULLY_CONNECTED, by channels  =>  the layer with those channels only"""
    whole = y.maker.operands[1 if y.maker.kind == "SPLIT" else 0]
    layer = whole.producer
    if layer is None or layer.kind not in LAYERS or len(layer.operands) != 3:
        return skip("what is taken apart is not the result of a layer")
    if any(user.kind not in PARTS for user, _ in whole.uses):
        return skip("the layer's whole result is also used")
    start = _channel_start(y.maker, y)
    if start is None:
        return skip("it is not a range of channels")
    x, w, b = layer.operands
    if w.data is None or b.data is None or w.quant or b.quant:
        return skip("the layer's weights are not plain constants")
    stop = start + y.shape[-1]
    weights = new.const(w.weights.slice(0, start, stop), f"{w.name}[{start}:{stop}]")
    bias = new.const(b.weights.slice(0, start, stop), f"{b.name}[{start}:{stop}]")
    return new.again(layer, x, weights, bias)


def _channel_start(part: Op, y: Tensor) -> int | None:
    """Return the first channel that `y` takes, or None when `y` is not a plain range of channels."""
    last = len(y.shape) - 1
    if part.kind == "SPLIT":
        axis = int(part.operands[0].values().reshape(-1)[0]) % len(y.shape)
        return part.outputs.index(y) * y.shape[-1] if axis == last else None
    x, begin = part.operands[:2]
    if x.shape[:-1] != y.shape[:-1]:
        return None
    if part.kind == "STRIDED_SLICE" and (part.operands[3].values() != 1).any():
        return None
    masked = part.kind == "STRIDED_SLICE" and part.attrs["begin_mask"] >> last & 1
    start = 0 if masked else int(begin.values()[-1])
    return start + x.shape[-1] if start < 0 else start
