"""How a unit passes from one tensor of an operator to the others: a function for each family.

Each takes the operator, the place of the tensor that has the unit, and its layout; it returns the other
places that have it too, with their layouts. Places: inputs count from 0, outputs are -1, -2, …. Raises
Unprunable where the unit cannot be removed, Refine where another view of it could be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from msd.compress.pruning.layout import Refine, Shape, UnitLayout, Unprunable
from msd.graph.ir import Op, Tensor
from msd.graph.ir.opset import BINARY, UNARY

Found = list[tuple[int, UnitLayout]]
Relation = Callable[[Op, int, UnitLayout], Found]


def tensor_at(op: Op, place: int) -> Tensor:
    """Return the input or output of `op` at `place`."""
    tensor = op.inputs[place] if place >= 0 else op.outputs[~place]
    assert tensor is not None
    return tensor


def shape_at(op: Op, place: int) -> Shape:
    """Return the shape of the input or output of `op` at `place`."""
    return tensor_at(op, place).shape


def elementwise(op: Op, place: int, layout: UnitLayout) -> Found:
    """Operands broadcast to the result: those that have the unit's axes have the unit."""
    out = op.outputs[0].shape
    result = layout if place < 0 else layout.spread(shape_at(op, place), out)
    if result is None:
        raise Unprunable(f"{op.kind} has the unit's axes in no result")
    places: Found = [(-1, result)]
    for i, operand in enumerate(op.inputs):
        if operand is not None and (part := result.spread(out, operand.shape)):
            places.append((i, part))
    return places


def broadcast_to(op: Op, place: int, layout: UnitLayout) -> Found:
    """Like any operand, but one that lacks the unit's axes just fills fewer of them."""
    out = op.outputs[0].shape
    result = layout if place < 0 else layout.spread(shape_at(op, place), out)
    assert result is not None
    part = result.spread(out, shape_at(op, 0))
    return [(-1, result), *([(0, part)] if part else [])]


def reshape(op: Op, place: int, layout: UnitLayout) -> Found:
    """The same elements in the same order."""
    return [(0, layout), (-1, layout)]


def transpose(op: Op, place: int, layout: UnitLayout) -> Found:
    """The core's axes must stay adjacent; two that separate are viewed as blocks, as attention heads are."""
    order = [int(i) % len(op.outputs[0].shape) for i in tensor_at(op, 1).values()]
    if place < 0:
        order = [order.index(i) for i in range(len(order))]
    shape = shape_at(op, place)
    to = shape_at(op, -1 if place >= 0 else 0)
    start, stop = layout.core(shape)
    wide = [order.index(i) for i in range(start, stop) if shape[i] > 1]
    between = range(wide[0], wide[-1] + 1)
    if wide != sorted(wide) or any(to[i] > 1 and i not in wide for i in between):
        raise _parted(layout, shape, op)
    pre, post = layout.inner(shape)
    moved = replace(layout, pre=pre * prod(to[: wide[0]]), post=post * prod(to[wide[-1] + 1 :]))
    return [(-1 if place >= 0 else 0, moved)]


def _parted(layout: UnitLayout, shape: Shape, op: Op) -> Exception:
    """Return the exception for two axes of the unit that separate: then only the first can shrink."""
    start, stop = layout.core(shape)
    wide = [shape[i] for i in range(start, stop) if shape[i] > 1]
    if layout.groups == 1 and prod(wide) == layout.count:
        return Refine("blocks", wide[0])
    return Unprunable(f"{op.kind} parts the unit's axes of {list(shape)}")


def _reduced(op: Op) -> set[int]:
    rank = len(shape_at(op, 0))
    return {int(a) % rank for a in tensor_at(op, 1).values().reshape(-1)}


def reduce(op: Op, place: int, layout: UnitLayout) -> Found:
    """A reduction over other axes keeps the unit; a mean over its own is a statistic of what remains."""
    x, axes = shape_at(op, 0), _reduced(op)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x))
    if place < 0:
        operand = layout.spread(kept, x)
        return [] if operand is None else [(0, operand)]
    start, stop = layout.core(x)
    inside = [i for i in range(start, stop) if x[i] > 1 and i in axes]
    if not inside:
        pre, post = layout.inner(x)
        return [(-1, replace(layout, pre=pre * prod(kept[:start]), post=post * prod(kept[stop:])))]
    unit = [i for i in range(*layout.unit(x)) if x[i] > 1]
    if inside == unit or inside == [i for i in range(start, stop) if x[i] > 1]:
        if op.kind != "MEAN":
            raise Unprunable(f"{op.kind} adds up or compares the units")
        return []
    leading = prod(x[start : inside[0]])
    if layout.groups == 1 and leading > 1 and inside == list(range(inside[0], stop)):
        raise Refine("groups", leading)
    raise Unprunable(f"{op.kind} over the axes {sorted(axes)} of {list(x)} parts the unit")


def split(op: Op, place: int, layout: UnitLayout) -> Found:
    """Equal parts: along another axis, or each part a copy tied to the others."""
    x = 0 if op.kind == "SPLIT_V" else 1
    axis = int(tensor_at(op, 2 if op.kind == "SPLIT_V" else 0).values().reshape(-1)[0]) % len(shape_at(op, x))
    whole, parts = shape_at(op, x), len(op.outputs)
    if any(t.shape != op.outputs[0].shape for t in op.outputs):
        raise Unprunable("SPLIT_V makes unequal parts")
    outputs = [~i for i in range(parts)]
    if place >= 0:
        part = _part(layout, whole, op.outputs[0].shape, axis)
        return [(i, part) for i in outputs]
    return [(x, _whole(layout, op.outputs[0].shape, whole, axis)), *((i, layout) for i in outputs)]


def _part(layout: UnitLayout, whole: Shape, part: Shape, axis: int) -> UnitLayout:
    """Return the layout in a part of a tensor, cut along `axis`."""
    start, stop = layout.core(whole)
    times = whole[axis] // part[axis]
    if axis < start:
        return replace(layout, pre=layout.pre // times)
    if axis >= stop:
        return replace(layout, post=layout.post // times)
    pre, _ = layout.inner(whole)
    if whole[axis] % part[axis] == 0 and pre % times == 0 and stop - start == 1:
        return replace(layout, pre=layout.pre // times)
    if layout.groups == 1 and pre == 1 and stop - start == 1 and whole[axis] % part[axis] == 0:
        raise Refine("tied", times)
    raise Unprunable(f"the unit is cut along axis {axis} of {list(whole)}")


def _whole(layout: UnitLayout, part: Shape, whole: Shape, axis: int) -> UnitLayout:
    """Return the layout in the tensor that was cut along `axis` into parts such as this one."""
    start, stop = layout.core(part)
    times, left = divmod(whole[axis], part[axis])
    if axis < start:
        return replace(layout, pre=layout.pre // part[axis] * whole[axis])
    if axis < stop and stop - start == 1 and not left:
        return replace(layout, pre=layout.pre * times)
    if axis >= stop:
        return replace(layout, post=layout.post // part[axis] * whole[axis])
    raise Unprunable(f"the unit is cut along axis {axis} of {list(whole)}")


def slice_(op: Op, place: int, layout: UnitLayout) -> Found:
    """A part along one axis; along the unit's own it is one of several tied copies."""
    whole, part = shape_at(op, 0), op.outputs[0].shape
    axes = [i for i, (n, m) in enumerate(zip(whole, part, strict=False)) if n != m]
    if len(whole) != len(part) or len(axes) > 1 or not _unstrided(op):
        raise Unprunable(f"{op.kind} from {list(whole)} to {list(part)} is more than a part along one axis")
    if not axes:
        return [(0, layout), (-1, layout)]
    axis = axes[0]
    core = layout.core(whole if place >= 0 else part)
    if core[0] <= axis < core[1] and (whole[axis] % part[axis] or begin(op)[axis] % part[axis]):
        raise Unprunable(f"{op.kind} takes an odd part of the unit's axis")
    if place >= 0:
        return [(-1, _part_of_slice(layout, whole, part, axis))]
    return [(0, _whole(layout, part, whole, axis))]


def _part_of_slice(layout: UnitLayout, whole: Shape, part: Shape, axis: int) -> UnitLayout:
    start, stop = layout.core(whole)
    if start <= axis < stop:
        return _part(layout, whole, part, axis)
    return layout.moved(whole, part, start)


def _unstrided(op: Op) -> bool:
    masks = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return op.kind == "SLICE" or not (any(map(op.attrs.get, masks)) or set(tensor_at(op, 3).values()) - {1})


def begin(op: Op) -> list[int]:
    """Return where a SLICE or STRIDED_SLICE begins, on each axis of its input."""
    mask = op.attrs.get("begin_mask", 0)
    ends = zip(tensor_at(op, 1).values(), shape_at(op, 0), strict=True)
    return [0 if mask >> i & 1 else int(b) % n for i, (b, n) in enumerate(ends)]


def concatenation(op: Op, place: int, layout: UnitLayout) -> Found:
    """Along another axis than the unit's."""
    shape, out = shape_at(op, place), op.outputs[0].shape
    axis = op.attrs["axis"] % len(out)
    start, stop = layout.core(shape)
    if start <= axis < stop:
        raise Unprunable("CONCATENATION joins the unit with other channels")
    others = [*range(len(op.inputs)), -1]
    return [(i, layout.moved(shape, shape_at(op, i), start)) for i in others]


def softmax(op: Op, place: int, layout: UnitLayout) -> Found:
    """Over the last axis, which must not be the unit's."""
    if layout.core(shape_at(op, 0))[1] == len(shape_at(op, 0)):
        raise Unprunable(f"{op.kind} is taken over the units")
    return [(0, layout), (-1, layout)]


def _same_axis(op: Op, places: dict[int, int], place: int, layout: UnitLayout) -> Found:
    """The unit lies in one axis, which `places` names for each place that has it."""
    shape = shape_at(op, place)
    start, stop = layout.core(shape)
    if place not in places or [i for i in range(start, stop) if shape[i] > 1] != [places[place]]:
        raise Unprunable(f"{op.kind} has the unit in axes {list(range(start, stop))} of {list(shape)}")
    pre, post = layout.pre // prod(shape[: places[place]]), layout.post // prod(shape[places[place] + 1 :])
    places_moved = []
    for i, axis in places.items():
        if i < 0 or (i < len(op.inputs) and op.inputs[i] is not None):
            to = shape_at(op, i)
            moved = replace(layout, pre=pre * prod(to[:axis]), post=post * prod(to[axis + 1 :]))
            places_moved.append((i, moved))
    return places_moved


def _layer(op: Op, place: int, layout: UnitLayout, inner: dict[int, int], outer: dict[int, int]) -> Found:
    """A layer with weights: `inner` is the axis it sums over, by place, and `outer` the one it makes."""
    shape = shape_at(op, place)
    wide = [i for i in range(*layout.core(shape)) if shape[i] > 1]
    return _same_axis(op, inner if wide == [inner.get(place)] else outer, place, layout)


def conv_2d(op: Op, place: int, layout: UnitLayout) -> Found:
    """NHWC by OHWI: channels in, channels out."""
    if shape_at(op, 0)[3] != shape_at(op, 1)[3]:
        raise Unprunable("CONV_2D has groups")
    return _layer(op, place, layout, {0: 3, 1: 3}, {1: 0, 2: 0, -1: 3})


def depthwise(op: Op, place: int, layout: UnitLayout) -> Found:
    """Each channel by itself."""
    if op.attrs["depth_multiplier"] != 1:
        raise Unprunable("DEPTHWISE_CONV_2D makes several channels of each")
    return _same_axis(op, {0: 3, 1: 3, 2: 0, -1: 3}, place, layout)


def fully_connected(op: Op, place: int, layout: UnitLayout) -> Found:
    """(…, I) by (O, I)."""
    last = len(shape_at(op, 0)) - 1
    return _layer(op, place, layout, {0: last, 1: 1}, {1: 0, 2: 0, -1: len(op.outputs[0].shape) - 1})


def batch_matmul(op: Op, place: int, layout: UnitLayout) -> Found:
    """(…, M, K) by (…, K, N): rows, columns, what is summed over, or a batch axis that all may have."""
    ranks = {i: len(shape_at(op, i)) for i in (0, 1, -1)}
    rows, inner = (-1, -2) if op.attrs["adj_x"] else (-2, -1)
    other, columns = (-1, -2) if op.attrs["adj_y"] else (-2, -1)
    roles = [{0: rows, -1: -2}, {0: inner, 1: other}, {1: columns, -1: -1}]
    shape = shape_at(op, place)
    wide = [i - len(shape) for i in range(*layout.core(shape)) if shape[i] > 1]
    for role in roles:
        if wide == [role.get(place)]:
            return _same_axis(op, {i: axis + ranks[i] for i, axis in role.items()}, place, layout)
    if not all(i < -2 for i in wide):
        raise _parted(layout, shape, op)
    return _batch(op, place, layout)


def _batch(op: Op, place: int, layout: UnitLayout) -> Found:
    """Batch axes are broadcast, rows and columns are each tensor's own."""
    shape, out = shape_at(op, place), op.outputs[0].shape
    result = _with_tail(layout, shape, out).spread((*shape[:-2], *out[-2:]), out)
    assert result is not None
    places: Found = [(-1, result)]
    for i in (0, 1):
        to = shape_at(op, i)
        if part := result.spread(out, (*to[:-2], *out[-2:])):
            places.append((i, _with_tail(part, out, to)))
    return places


def _with_tail(layout: UnitLayout, shape: Shape, to: Shape) -> UnitLayout:
    """Return the layout when the last two axes are those of `to`."""
    return replace(layout, post=layout.post // prod(shape[-2:]) * prod(to[-2:]))


def channelwise(op: Op, place: int, layout: UnitLayout) -> Found:
    """Windows and pixels of NHWC, each channel by itself."""
    return _same_axis(op, {0: 3, -1: 3}, place, layout)


def lengthen(op: Op, place: int, layout: UnitLayout) -> Found:
    """PAD and TILE of other axes than the unit's."""
    shape, to = shape_at(op, place), shape_at(op, -1 if place >= 0 else 0)
    start, stop = layout.core(shape)
    if shape[start:stop] != to[start:stop]:
        raise Unprunable(f"{op.kind} lengthens the unit's own axis")
    return [(-1 if place >= 0 else 0, layout.moved(shape, to, start))]


RELATIONS: dict[str, Relation] = {
    **dict.fromkeys([*UNARY, *BINARY, "SELECT", "SELECT_V2"], elementwise),
    **dict.fromkeys(["RESHAPE", "EXPAND_DIMS", "SQUEEZE"], reshape),
    **dict.fromkeys(["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"], reduce),
    **dict.fromkeys(["SPLIT", "SPLIT_V"], split),
    **dict.fromkeys(["SLICE", "STRIDED_SLICE"], slice_),
    **dict.fromkeys(["SOFTMAX", "LOG_SOFTMAX"], softmax),
    **dict.fromkeys(
        ["RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR", "AVERAGE_POOL_2D", "MAX_POOL_2D"], channelwise
    ),
    **dict.fromkeys(["PAD", "PADV2", "MIRROR_PAD", "TILE"], lengthen),
    "BATCH_MATMUL": batch_matmul,
    "BROADCAST_TO": broadcast_to,
    "CONCATENATION": concatenation,
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": depthwise,
    "FULLY_CONNECTED": fully_connected,
    "TRANSPOSE": transpose,
}
"""By operator; a unit that reaches any other cannot be removed."""
