"""A layer whose result is only sliced becomes several layers (GEGLU, joint projections)."""

from msd.graph.rewrite import Build, Skip, Tensor, any_op, rule, skip

PARTS = ("SPLIT", "SLICE", "STRIDED_SLICE")
LAYERS = ("CONV_2D", "FULLY_CONNECTED")
MASKS = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@rule("canonicalize", any_op(*PARTS, name="y"), spells=("gated_layer", "separate"))
def split_sliced_layer(new: Build, y: Tensor) -> Tensor | Skip:
    """SPLIT or SLICE of CONV_2D or FULLY_CONNECTED, by channels  =>  the layer with those channels only"""
    result = y.maker.operands[1 if y.maker.kind == "SPLIT" else 0]
    layer = result.producer
    if layer is None or layer.kind not in LAYERS or len(layer.operands) != 3:
        return skip("its input is not the result of a layer")
    start = _channel_start(y)
    if start is None:
        return skip("it is not a range of channels")
    if any(user.kind not in PARTS or _channel_start(user.outputs[0]) is None for user, _ in result.uses):
        return skip("the layer's whole result is also used")
    x, w, b = layer.operands
    if w.data is None or b.data is None or w.quant or w.shape[-1] != x.shape[-1]:
        return skip("the layer's weights are not plain constants over all channels")
    stop = start + y.shape[-1]
    weights = new.const(w.weights.slice(0, start, stop), f"{w.name}[{start}:{stop}]")
    bias = new.const(b.weights.slice(0, start, stop), f"{b.name}[{start}:{stop}]")
    return new.again(layer, x, weights, bias)


def _channel_start(y: Tensor) -> int | None:
    """Return the first channel of the slice `y`, None if `y` is not a plain range of channels."""
    part, last = y.maker, len(y.shape) - 1
    at = 0 if part.kind == "SPLIT" else 1
    if part.operands[at].data is None:
        return None
    if part.kind == "SPLIT":
        axis = int(part.operands[0].values().reshape(-1)[0]) % len(y.shape)
        return part.outputs.index(y) * y.shape[-1] if axis == last else None
    x, begin, *_ = part.operands
    if x.shape[:-1] != y.shape[:-1] or len(begin.values()) != len(y.shape):
        return None
    start = int(begin.values()[-1])
    if part.kind == "SLICE":
        return start
    if (part.operands[3].values() != 1).any() or any(part.attrs[mask] for mask in MASKS):
        return None
    return 0 if part.attrs["begin_mask"] >> last & 1 else max(0, start + x.shape[-1] if start < 0 else start)
