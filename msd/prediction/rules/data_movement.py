"""Checks of operations that move numbers or work on each: where they read, and where they put."""

from __future__ import annotations

import numpy as np

from msd.ir import NUMPY, Tensor
from msd.prediction.rules.checks import Check, Flaw, is_scalar
from msd.prediction.rules.view import FLOATS, View, from_left, has_scales, listed, numbers

SHAPED_BY: dict[str, tuple[int, ...]] = {
    "RESHAPE": (1,),
    **dict.fromkeys(["PAD", "PADV2", "MIRROR_PAD", "TILE", "RESIZE_BILINEAR"], (1,)),
    "RESIZE_NEAREST_NEIGHBOR": (1,),
}
"""Operands that decide a result's shape: at run time the shape is unknown, and the graph is refused."""

SCALED = ("INT8", "UINT8", "INT4")


def known_at_rest() -> Check:
    """Operands that decide the shape of the result are constant."""

    def test(view: View) -> Flaw | None:
        late = tuple(view.operands[i] for i in SHAPED_BY[view.kind] if view.is_runtime(i))
        clause = "makes a result whose shape is known only at run time; the graph is refused for that"
        return (clause, late) if late else None

    return Check("dynamic", test)


def with_a_rank() -> Check:
    """Of two runtime operands of different ranks none is a scalar."""

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
    """Only sums and products take one tensor twice."""

    def test(view: View) -> Flaw | None:
        a, b = view.input(0), view.input(1)
        if a is not b or a is None or a.data is not None or view.kind in ("ADD", "ADD_N", "MUL"):
            return None
        return "reads one tensor twice; two different ones are wanted", (a,)

    return Check("identical", test)


def constants_of_one_rank() -> Check:
    """Two constants have as many dimensions as their result."""

    def test(view: View) -> Flaw | None:
        rank = len(view.outputs[0].shape)
        other = tuple(t for t in view.constants if len(t.shape) != rank)
        clause = f"reads constants only, of other than {rank} dimensions; as many as the result has are taken"
        return (clause, other) if other and not view.runtime else None

    return Check("rank", test, fix="fold_arithmetic")


def constant_operand() -> Check:
    """A constant beside a runtime tensor is one that is brought to float, or int32, of at most rank 4."""

    def test(view: View) -> Flaw | None:
        if len(view.runtime) != 1 or not view.constants:
            return None
        (c,) = view.constants[:1]
        scaled = c.dtype in SCALED and has_scales(c) > 0
        if c.dtype not in (*FLOATS, "INT32") and not scaled:
            return f"has a constant of {c.dtype}; floats, INT32 and integers with a scale are taken", (c,)
        if len(c.shape) > 4 and c.size > 1:
            return f"has a constant of shape {listed(c.shape)}; up to four dimensions are taken", (c,)
        return None

    return Check("constness", test)


def axes_exist(position: int, of: int = 0) -> Check:
    """The constant axes at `position` are within the rank of the operand at `of`, which is 1 to 4."""

    def test(view: View) -> Flaw | None:
        x, axes = view.input(of), numbers(view.input(position))
        if x is None or axes is None:
            return "takes its axes at run time; constants are wanted", view.operands[position:][:1]
        rank = len(x.shape)
        if axes and not 1 <= rank <= 4:
            return f"works along an axis of {listed(x.shape)}; rank 1 to 4 is taken", (x,)
        return None if all(-rank <= a < rank for a in axes) else (f"has no axis {axes} of {rank}", (x,))

    return Check("rank", test, fix="lower_group_norm")


def prelu_alpha() -> Check:
    """Slopes are one per channel, or one per number of an image."""

    def test(view: View) -> Flaw | None:
        x, alpha = view.operands
        _, h, w, c = from_left(x.shape)
        linear = [n for n in alpha.shape if n > 1] in ([], [alpha.shape[-1]])
        fits = linear and alpha.shape[-1] == c
        whole = len(alpha.shape) in (3, 4) and alpha.shape[-3:] == (h, w, c)
        clause = f"has slopes of shape {listed(alpha.shape)} for {listed(x.shape)}; one a channel is taken"
        return None if fits or whole else (clause, (alpha,))

    return Check("shape", test)


def index_per_axis() -> Check:
    """A permutation is of two to four axes."""

    def test(view: View) -> Flaw | None:
        perm = numbers(view.input(1)) or []
        clause = f"permutes {len(perm)} axes; 2 to 4 are taken"
        return None if 2 <= len(perm) <= 4 else (clause, view.operands[:1])

    return Check("rank", test)


def slice_indices() -> Check:
    """Where a slice begins and how large it is are int32 constants, one number for each axis."""

    def test(view: View) -> Flaw | None:
        for position, what in ((1, "begin"), (2, "size")):
            tensor = view.input(position)
            if tensor is None or tensor.data is None or tensor.dtype != "INT32":
                return f"takes its {what} other than as an INT32 constant", view.operands[position:][:1]
        return None

    return Check("constness", test)


def forward_strides() -> Check:
    """Steps are forward, and there is one for each axis or for each but the first."""

    def test(view: View) -> Flaw | None:
        x, steps = view.operands[0], numbers(view.input(3)) or []
        if len(x.shape) - len(steps) not in (0, 1):
            return f"has {len(steps)} steps for {listed(x.shape)}; one for each axis is wanted", (x,)
        return ("steps backwards; forward steps are taken", (x,)) if min(steps, default=1) < 1 else None

    return Check("attribute", test)


def slices_to_its_result() -> Check:
    """What begin, end and steps select, as the delegate reads them, has the shape of the result.

    With one number fewer than axes they are taken for height, width and channels, NumPy's first three.
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
        return "selects another shape than it makes, as the delegate reads its indices", (x, y)

    return Check("shape", test)


def _axes(rank: int) -> tuple[int, ...]:
    return {1: (0,), 2: (0, 3), 3: (0, 2, 3)}.get(rank, (0, 1, 2, 3))


def _masked(view: View, name: str, axis: int, rank: int) -> bool:
    axes = _axes(rank)
    return axis in axes and bool(view.attrs[name] >> axes.index(axis) & 1)


def _wrapped(index: int, size: int) -> int:
    return index + size if index < 0 else index


def paddings_shape() -> Check:
    """There are paddings for three axes or four."""

    def test(view: View) -> Flaw | None:
        pads = view.input(1)
        if pads is not None and pads.shape in ((3, 2), (4, 2)):
            return None
        shape = "no shape" if pads is None else listed(pads.shape)
        return f"has paddings of {shape}; [3, 2] and [4, 2] are taken", view.operands[:1]

    return Check("rank", test)


def pads_floats() -> Check:
    """What is padded is of floats: the shader for others does not compile."""

    def test(view: View) -> Flaw | None:
        x = view.operands[0]
        return None if x.dtype in FLOATS else (f"pads {x.dtype}, for which the shader does not compile", (x,))

    return Check("shader", test)


def one_image() -> Check:
    """There is one image: for a batch the shader does not compile."""

    def test(view: View) -> Flaw | None:
        x = view.operands[0]
        batch = from_left(x.shape)[0]
        clause = f"works on {batch} images, for which the shader does not compile; one is taken"
        return (clause, (x,)) if batch > 1 else None

    return Check("shader", test)


def one_way_to_align() -> Check:
    """Corners are aligned or the centres of pixels are halves, not both."""

    def test(view: View) -> Flaw | None:
        both = view.attrs["align_corners"] and view.attrs["half_pixel_centers"]
        return ("has align_corners and half_pixel_centers; one of them is taken", ()) if both else None

    return Check("attribute", test)


def select_branches() -> Check:
    """What is chosen from is of the shape of the result, or a scalar."""

    def test(view: View) -> Flaw | None:
        shape = view.outputs[0].shape
        other = tuple(t for t in view.operands[1:] if t.shape != shape and not is_scalar(t))
        shapes = ", ".join(listed(t.shape) for t in other)
        clause = f"chooses from shape {shapes}; {listed(shape)} or a scalar is wanted"
        return (clause, other) if other else None

    return Check("broadcast", test)


def one_hot_axis() -> Check:
    """The new axis is the last, written as -1.

    The delegate also takes an axis equal to the last dimension's size, which means nothing.
    """

    def test(view: View) -> Flaw | None:
        axis, shape = view.attrs["axis"], view.operands[0].shape
        fine = axis == -1 or (shape and axis == shape[-1])
        return None if fine else (f"has axis {axis}; -1 is taken", view.operands[:1])

    return Check("attribute", test)


def one_hot_channels() -> Check:
    """Indices of rank 4 have one channel."""

    def test(view: View) -> Flaw | None:
        x = view.operands[0]
        clause = f"has indices of shape {listed(x.shape)}; one channel is wanted"
        return (clause, (x,)) if len(x.shape) > 3 and x.shape[3] != 1 else None

    return Check("shape", test)


def lookup_table() -> Check:
    """A table of a lookup is a constant matrix of floats or of small integers with scales."""

    def test(view: View) -> Flaw | None:
        ids, table = view.operands
        if table.dtype not in ("FLOAT32", "INT8", "INT4", "INT2"):
            return f"has a table of {table.dtype}; FLOAT32, INT8, INT4 and INT2 are taken", (table,)
        if table.dtype != "FLOAT32" and not has_scales(table):
            return f"has a table of {table.dtype} without scales", (table,)
        if table.data is None or ids.data is not None:
            return "has a runtime table or constant ids, which crashes the delegate", (ids, table)
        if len(table.shape) != 2:
            return f"has a table of shape {listed(table.shape)}, which crashes the delegate", (table,)
        return None

    return Check("constness", test)


def update_fits() -> Check:
    """What is written is of the dtype and rank of what it is written into, and no larger."""

    def test(view: View) -> Flaw | None:
        x, part, _ = view.operands
        if x.dtype != part.dtype or len(x.shape) != len(part.shape) or len(x.shape) > 4:
            return f"writes {part!r} into {x!r}; one dtype and one rank are wanted", (x, part)
        fits = all(a >= b for a, b in zip(x.shape, part.shape, strict=True))
        return None if fits else (f"writes {part!r} into {x!r}, which is smaller", (x, part))

    return Check("shape", test)


def bitcast_shapes() -> Check:
    """The shapes of one pattern of bits, read as numbers of two widths, belong together."""

    def test(view: View) -> Flaw | None:
        x, y = view.operands[0], view.outputs[0]
        old, new = _width(x), _width(y)
        if old is None or new is None:
            return f"turns {x.dtype} into {y.dtype}, whose width is not known", (x, y)
        long, short = (x.shape, y.shape) if old < new else (y.shape, x.shape)
        extra = () if old == new else (max(old, new) // min(old, new),)
        fits = long == (*short, *extra)
        return None if fits else (f"turns {x!r} into {y!r}; the bits do not fit", (x, y))

    return Check("shape", test)


def _width(tensor: Tensor) -> int | None:
    name = NUMPY.get(tensor.dtype)
    return None if name is None else np.dtype(name).itemsize
