"""Checks of operators that move data or are element-wise."""

from __future__ import annotations

import numpy as np

from msd.files.wording import counted
from msd.graph.ir import NUMPY, Tensor
from msd.graph.prediction.rules.checks import Check, Flaw, is_scalar
from msd.graph.prediction.rules.view import (
    FLOATS,
    View,
    from_left,
    missing_scale,
    numbers,
    scale_count,
    shape_text,
)

SHAPED_BY: dict[str, tuple[int, ...]] = {
    "RESHAPE": (1,),
    **dict.fromkeys(["PAD", "PADV2", "MIRROR_PAD", "TILE", "RESIZE_BILINEAR"], (1,)),
    "RESIZE_NEAREST_NEIGHBOR": (1,),
}
"""The operands that determine a result's shape; unless they are constant, the graph is refused."""

SCALED = ("INT8", "UINT8", "INT4")


def known_at_rest() -> Check:
    """The operands that determine the shape of the result are constant."""

    def test(view: View) -> Flaw | None:
        shapes = tuple(view.operands[i] for i in SHAPED_BY[view.kind] if view.is_runtime(i))
        clause = "has a result whose shape is known only at run time, for which the graph is refused"
        return (clause, shapes) if shapes else None

    return Check("dynamic", test)


def with_a_rank() -> Check:
    """Neither of two runtime operands of different ranks is a scalar."""

    def test(view: View) -> Flaw | None:
        a, *rest = view.runtime
        scalars = tuple(t for t in (a, *rest) if not t.shape)
        if not rest or not scalars or len(a.shape) == len(rest[0].shape):
            return None
        return "reads a scalar at run time; give it a dimension, or make it a constant", scalars

    def safe(view: View) -> Flaw | None:
        return test(view) if view.runtime else None

    return Check("rank", safe)


def different_operands() -> Check:
    """The operands are two different tensors, except for sums and products."""

    def test(view: View) -> Flaw | None:
        a, b = view.input(0), view.input(1)
        if a is not b or a is None or a.data is not None or view.kind in ("ADD", "ADD_N", "MUL"):
            return None
        return "reads one tensor twice; two different tensors are required", (a,)

    return Check("identical", test)


def constants_of_one_rank() -> Check:
    """If both operands are constant, they have the rank of the result."""

    def test(view: View) -> Flaw | None:
        rank = len(view.outputs[0].shape)
        other = tuple(t for t in view.constants if len(t.shape) != rank)
        clause = f"reads only constants, not all of rank {rank}, which is the rank of the result"
        return (clause, other) if other and not view.runtime else None

    return Check("rank", test, fix="fold_arithmetic")


def constant_operand() -> Check:
    """A constant beside a runtime tensor is float, dequantisable or int32, and of rank 4 or below."""

    def test(view: View) -> Flaw | None:
        if len(view.runtime) != 1 or not view.constants:
            return None
        (c,) = view.constants[:1]
        scaled = c.dtype in SCALED and scale_count(c) > 0
        if c.dtype not in (*FLOATS, "INT32") and not scaled:
            what = f"{c.dtype} {missing_scale(c)}" if c.dtype in SCALED else c.dtype
            return f"has a constant of {what}; floats, INT32 and integers with a scale are supported", (c,)
        if len(c.shape) > 4 and c.size > 1:
            return f"has a constant of shape {shape_text(c.shape)}; up to four dimensions are supported", (c,)
        return None

    return Check("constness", test)


def axes_exist(position: int, of: int = 0) -> Check:
    """The axes at `position` are constant and exist in the operand at `of`, which has rank 1 to 4."""

    def test(view: View) -> Flaw | None:
        x, axes = view.input(of), numbers(view.input(position))
        if x is None or axes is None:
            return "reads its axes at run time; constants are required", view.operands[position:][:1]
        rank = len(x.shape)
        if axes and not 1 <= rank <= 4:
            return f"works along an axis of {shape_text(x.shape)}; rank 1 to 4 is supported", (x,)
        return None if all(-rank <= a < rank for a in axes) else (f"has no axis {axes} of {rank}", (x,))

    return Check("rank", test, fix="lower_group_norm")


def prelu_alpha() -> Check:
    """There is one slope per channel, or one per element of an image."""

    def test(view: View) -> Flaw | None:
        x, alpha = view.operands
        _, h, w, c = from_left(x.shape)
        linear = [n for n in alpha.shape if n > 1] in ([], [alpha.shape[-1]])
        fits = linear and alpha.shape[-1] == c
        whole = len(alpha.shape) in (3, 4) and alpha.shape[-3:] == (h, w, c)
        clause = (
            f"has slopes of shape {shape_text(alpha.shape)} for {shape_text(x.shape)}; use one per channel"
        )
        return None if fits or whole else (clause, (alpha,))

    return Check("shape", test)


def index_per_axis() -> Check:
    """The permutation has two to four axes."""

    def test(view: View) -> Flaw | None:
        perm = numbers(view.input(1)) or []
        clause = f"permutes {counted(len(perm), 'axis', 'axes')}; 2 to 4 are supported"
        return None if 2 <= len(perm) <= 4 else (clause, view.operands[:1])

    return Check("rank", test)


def slice_indices() -> Check:
    """The begin and the size of a slice are int32 constants."""

    def test(view: View) -> Flaw | None:
        for position, what in ((1, "begin"), (2, "size")):
            tensor = view.input(position)
            if tensor is None or tensor.data is None or tensor.dtype != "INT32":
                return f"must read its {what} from an INT32 constant", view.operands[position:][:1]
        return None

    return Check("constness", test)


def forward_strides() -> Check:
    """Strides are positive, one for each axis or for each but the first."""

    def test(view: View) -> Flaw | None:
        x, steps = view.operands[0], numbers(view.input(3)) or []
        if len(x.shape) - len(steps) not in (0, 1):
            return f"has {counted(len(steps), 'stride')} for {shape_text(x.shape)}; use one per axis", (x,)
        clause = "has a stride below 1; positive strides are supported"
        return (clause, (x,)) if min(steps, default=1) < 1 else None

    return Check("attribute", test)


def slices_to_its_result() -> Check:
    """The delegate's reading of begin, end and strides selects the shape of the result.

    If they are one shorter than the rank, it applies them to height, width and channels, NumPy to the first
    three axes.
    """

    def test(view: View) -> Flaw | None:
        x, y = view.operands[0], view.outputs[0]
        begin, end, steps = (numbers(view.input(i)) or [] for i in (1, 2, 3))
        shape, rank = from_left(x.shape), len(x.shape)
        axes = _axes(rank) if len(steps) == rank else (1, 2, 3)[: len(steps)]
        selected = list(shape)
        for i, axis in enumerate(axes):
            size = shape[axis]
            first = 0 if _masked(view, "begin_mask", axis, rank) else _wrapped(begin[i], size)
            last = size if _masked(view, "end_mask", axis, rank) else _wrapped(end[i], size)
            selected[axis] = -((first - last) // steps[i])
        if tuple(selected) == from_left(y.shape):
            return None
        return "has indices by which the delegate selects another shape than the result's", (x, y)

    return Check("shape", test)


def _axes(rank: int) -> tuple[int, ...]:
    return {1: (0,), 2: (0, 3), 3: (0, 2, 3)}.get(rank, (0, 1, 2, 3))


def _masked(view: View, name: str, axis: int, rank: int) -> bool:
    axes = _axes(rank)
    return axis in axes and bool(view.attrs[name] >> axes.index(axis) & 1)


def _wrapped(index: int, size: int) -> int:
    return index + size if index < 0 else index


def paddings_shape() -> Check:
    """There are paddings for three or four axes."""

    def test(view: View) -> Flaw | None:
        pads = view.input(1)
        if pads is not None and pads.shape in ((3, 2), (4, 2)):
            return None
        shape = "no shape" if pads is None else shape_text(pads.shape)
        return f"has paddings of {shape}; [3, 2] and [4, 2] are supported", view.operands[:1]

    return Check("rank", test)


def pads_numbers() -> Check:
    """The padded tensor is float, or int8 or uint8 with a scale: the shader for others does not compile."""

    def test(view: View) -> Flaw | None:
        x = view.operands[0]
        small = x.dtype in ("INT8", "UINT8")
        if x.dtype in FLOATS or (small and scale_count(x)):
            return None
        lack = f" {missing_scale(x)}" if small else ""
        return f"pads {x.dtype}{lack}, for which the shader does not compile", (x,)

    return Check("shader", test)


def pads_with_a_number() -> Check:
    """What it pads integers with has a scale: without one the process dies."""

    def test(view: View) -> Flaw | None:
        x, value = view.operands[0], view.input(2)
        if x.dtype in FLOATS or value is None or scale_count(value):
            return None
        return f"pads {x.dtype} with a number without a scale, which ends the process", (value,)

    return Check("crash", test)


def sums_several_images() -> Check:
    """A sum along the batch of rank 4 has more than one image: for one the shader does not compile."""

    def test(view: View) -> Flaw | None:
        x, axis = view.operands[0], numbers(view.input(1)) or [1]
        if len(x.shape) != 4 or x.shape[0] != 1 or axis[0] % 4:
            return None
        return "sums along a batch of 1, for which the shader does not compile", (x,)

    return Check("shader", test)


def whole_slices() -> Check:
    """The last axis is a multiple of 4: for others the graph is refused."""

    def test(view: View) -> Flaw | None:
        x = view.operands[0]
        clause = f"has shape {shape_text(x.shape)}; the last axis must be a multiple of 4"
        return (clause, (x,)) if x.shape and x.shape[-1] % 4 else None

    return Check("graph", test)


def one_image() -> Check:
    """The batch is 1: for more the shader does not compile."""

    def test(view: View) -> Flaw | None:
        x = view.operands[0]
        batch = from_left(x.shape)[0]
        clause = f"works on {batch} images, for which the shader does not compile; use batch 1"
        return (clause, (x,)) if batch > 1 else None

    return Check("shader", test)


def one_way_to_align() -> Check:
    """At most one of align_corners and half_pixel_centers is set."""

    def test(view: View) -> Flaw | None:
        both = view.attrs["align_corners"] and view.attrs["half_pixel_centers"]
        return ("has both align_corners and half_pixel_centers; only one is supported", ()) if both else None

    return Check("attribute", test)


def select_branches() -> Check:
    """The branches have the shape of the result, or are scalars."""

    def test(view: View) -> Flaw | None:
        shape = view.outputs[0].shape
        other = tuple(t for t in view.operands[1:] if t.shape != shape and not is_scalar(t))
        shapes = ", ".join(shape_text(t.shape) for t in other)
        clause = f"selects from shape {shapes}; {shape_text(shape)} or a scalar is required"
        return (clause, other) if other else None

    return Check("broadcast", test)


def one_hot_axis() -> Check:
    """The new axis is the last, written as -1.

    The delegate also accepts an axis equal to the last dimension's size, which is meaningless.
    """

    def test(view: View) -> Flaw | None:
        axis, shape = view.attrs["axis"], view.operands[0].shape
        fine = axis == -1 or (shape and axis == shape[-1])
        return None if fine else (f"has axis {axis}; -1 is supported", view.operands[:1])

    return Check("attribute", test)


def one_hot_channels() -> Check:
    """Indices of rank 4 have one channel."""

    def test(view: View) -> Flaw | None:
        x = view.operands[0]
        clause = f"has indices of shape {shape_text(x.shape)}; one channel is required"
        return (clause, (x,)) if len(x.shape) > 3 and x.shape[3] != 1 else None

    return Check("shape", test)


def lookup_table() -> Check:
    """The table is a constant matrix of floats or of small integers with scales; the ids are not constant."""

    def test(view: View) -> Flaw | None:
        ids, table = view.operands
        if table.dtype not in ("FLOAT32", "INT8", "INT4", "INT2"):
            return f"has a table of {table.dtype}; FLOAT32, INT8, INT4 and INT2 are supported", (table,)
        if table.dtype != "FLOAT32" and not scale_count(table):
            return f"has a table of {table.dtype} {missing_scale(table)}", (table,)
        if table.data is None or ids.data is not None:
            return "has a runtime table or constant ids, which crashes the delegate", (ids, table)
        if len(table.shape) != 2:
            return f"has a table of shape {shape_text(table.shape)}, which crashes the delegate", (table,)
        return None

    return Check("constness", test)


def update_fits() -> Check:
    """The update has the dtype and rank of the tensor it is written to, and is no larger."""

    def test(view: View) -> Flaw | None:
        x, part, _ = view.operands
        if x.dtype != part.dtype or len(x.shape) != len(part.shape) or len(x.shape) > 4:
            return f"writes {part!r} into {x!r}; equal dtypes and ranks are required", (x, part)
        fits = all(a >= b for a, b in zip(x.shape, part.shape, strict=True))
        return None if fits else (f"writes {part!r} into {x!r}, which is smaller", (x, part))

    return Check("shape", test)


def bitcast_shapes() -> Check:
    """The shapes fit the same bits as numbers of both widths."""

    def test(view: View) -> Flaw | None:
        x, y = view.operands[0], view.outputs[0]
        old, new = _width(x), _width(y)
        if old is None or new is None:
            return f"turns {x.dtype} into {y.dtype}, whose width is not known", (x, y)
        long, short = (x.shape, y.shape) if old < new else (y.shape, x.shape)
        extra = () if old == new else (max(old, new) // min(old, new),)
        fits = long == (*short, *extra)
        return None if fits else (f"turns {x!r} into {y!r}; the sizes do not fit", (x, y))

    return Check("shape", test)


def _width(tensor: Tensor) -> int | None:
    name = NUMPY.get(tensor.dtype)
    return None if name is None else np.dtype(name).itemsize
