"""Group and layer normalisation: statistics, scale, shift and activation without an intermediate tensor.

"Speed Is All You Need", arXiv 2304.11267, section 3.1. Statistics are f32 and keep their precision where
the mean is far larger than the deviation: each invocation sums differences to a value of its own. Parts are
joined by the formula of Chan, Golub & LeVeque (1979), written as sums of differences too. A mean is two
numbers, the value that differences were taken to and the mean of the differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from msd.gpu.activation import activation_function
from msd.gpu.gpu import Gpu
from msd.gpu.kernels.group_shader import (
    APPLY,
    FINISH,
    JOIN_CHANNELS,
    JOIN_SLABS,
    MEASURE,
    MOVED,
    SCALES,
    WRITE_PART,
)
from msd.gpu.kernels.measured_output import MeasuredOutput
from msd.gpu.kernels.rows import MAIN, choose_rows, folded, has_half, meeting, row_start, vector, visit
from msd.gpu.operations import Activation, GroupNorm, LayerNorm
from msd.gpu.value import Dispatch, Kernel, Value
from msd.gpu.wgsl import fill, groups_for, header

SMALL = 20480
"""The elements of a group up to which one workgroup measures and normalises it, in one dispatch."""
NEIGHBOURS = 64
"""The channels that a workgroup reads side by side where an image is in slabs: whole lines of the cache."""
MOST_GROUPS = 32
"""The most groups of a workgroup: eight invocations join the parts of each."""
LEAST_EACH = 8
"""The least vectors that an invocation should read of a slab."""


@dataclass(frozen=True)
class Slabs:
    """How workgroups share an image: each has `groups` neighbouring groups of a slab of `pixels` pixels.

    Pixels are read as `columns` vectors of `width` channels, `across` of them at once.
    """

    width: int
    groups: int
    columns: int
    slabs: int
    pixels: int

    @property
    def across(self) -> int:
        """The invocations side by side on a pixel."""
        return min(self.columns, 256)


def choose_slabs(op: GroupNorm, gpu: Gpu) -> Slabs:
    """Return one slab where the image is small, else enough to fill the GPU with workgroups four times."""
    each = op.channels // op.groups
    width = 4 if op.channels % 4 == 0 and (each % 4 == 0 or lcm(each, 4) <= 1024) else 1
    unit = lcm(each, width) // each
    small = is_small(op)
    wanted = 1 if small else -(-NEIGHBOURS // (unit * each))
    groups = unit * max(1, min(wanted, MOST_GROUPS // unit))
    groups = min(groups, op.groups)
    columns = groups * each // width
    if small:
        return Slabs(width, groups, columns, slabs=1, pixels=op.pixels)
    chunks = op.batch * -(-op.groups // groups)
    lanes = 256 // min(columns, 256)
    most = max(1, op.pixels // (lanes * LEAST_EACH))
    slabs = min(most, -(-4 * gpu.enough_workgroups // chunks))
    pixels = -(-op.pixels // slabs)
    return Slabs(width, groups, columns, slabs=-(-op.pixels // pixels), pixels=pixels)


def normalize_groups(op: GroupNorm, gpu: Gpu, step: str = "") -> list[Dispatch]:
    """Return one dispatch for a small image, else two: statistics of slabs, then the rest."""
    return _group_dispatches(op, choose_slabs(op, gpu), op.y, step)


def group_statistics(op: GroupNorm, gpu: Gpu, step: str = "") -> tuple[list[Dispatch], Value]:
    """Return dispatches that write the normalisation as factors, and their value: f32, batch x 2 x channels.

    For image b and channel c, y = activation(x * value[b, 0, c] + value[b, 1, c]): whoever reads x next
    applies it. `op.y` is not written. Unlike `normalize_groups`, this form loses digits where the mean is
    hundreds of times the deviation.
    """
    factors = _factors(op)
    return _group_dispatches(op, choose_slabs(op, gpu), factors, step), factors


def is_small(op: GroupNorm) -> bool:
    """Return whether one dispatch measures the image, which a workgroup a group reads quickly."""
    return op.pixels * (op.channels // op.groups) <= SMALL


def joined_statistics(
    op: GroupNorm, measured: MeasuredOutput, step: str = ""
) -> tuple[list[Dispatch], Value]:
    """Return what `group_statistics` does, of the moments that the producer of op.x has measured."""
    factors, each = _factors(op), op.channels // op.groups
    slabs = Slabs(width=1, groups=1, columns=each, slabs=each * measured.slabs, pixels=op.pixels)
    pieces = [JOIN_CHANNELS, FINISH, SCALES]
    name = "group statistics, joined channels"
    return [_group_dispatch(op, slabs, measured.parts, factors, pieces, name, step)], factors


def _factors(op: GroupNorm) -> Value:
    return Value(f"{op.y.name} factors", "f32", 2 * op.batch * op.channels)


def _group_dispatches(op: GroupNorm, slabs: Slabs, y: Value, step: str) -> list[Dispatch]:
    last = APPLY if y is op.y else SCALES
    name = "group norm" if y is op.y else "group statistics"
    if slabs.slabs == 1:
        return [_group_dispatch(op, slabs, None, y, [MEASURE, FINISH, last], name, step)]
    parts = Value(f"{op.y.name} slabs", "f32", 4 * op.batch * op.groups * slabs.slabs)
    return [
        _group_dispatch(op, slabs, None, parts, [MEASURE, FINISH, WRITE_PART], f"{name}, slabs", step),
        _group_dispatch(op, slabs, parts, y, [JOIN_SLABS, FINISH, last], f"{name}, joined", step),
    ]


def _group_dispatch(
    op: GroupNorm,
    slabs: Slabs,
    parts: Value | None,
    y: Value,
    pieces: list[str],
    name: str,
    step: str,
) -> Dispatch:
    """Return the dispatch of a shader made of `pieces`; it binds only what they read."""
    width, end = slabs.width, pieces[-1]
    reads = {"x": (op.x, width)} if MEASURE in pieces or end is APPLY else {}
    if parts is not None:
        reads["slabs"] = (parts, 4)
    affine_width = width if end is APPLY else 1
    affine = {"scale": op.scale, "shift": op.shift} if end is not WRITE_PART else {}
    reads |= {key: (value, affine_width) for key, value in affine.items() if value is not None}
    y_width = {APPLY: width, WRITE_PART: 4}.get(end, 1)
    chunks, each = -(-op.groups // slabs.groups), op.channels // op.groups
    used = [value for value, _ in reads.values()]
    code = header(reads, {"y": (y, y_width)}, FIELDS, half=has_half((*used, y)))
    code += _group_code(slabs, pieces, y, op, {key for key in affine if key in reads})
    return Dispatch(
        kernel=Kernel(name, code),
        reads=tuple(used),
        writes=(y,),
        groups=(chunks, 1 if end is SCALES else slabs.slabs, op.batch),
        params=(
            *(op.pixels, op.channels // width, op.channels, op.groups, each),
            *(slabs.columns, slabs.across, slabs.groups, min(each, slabs.across * width)),
            *(slabs.pixels, slabs.slabs, float(op.epsilon)),
        ),
        flops=(3 if MEASURE in pieces else 0) * op.batch * op.pixels * op.channels
        + (4 if end is APPLY else 0) * op.batch * op.pixels * op.channels,
        step=step,
    )


FIELDS = [
    *("pixels: u32", "stride: u32", "channels: u32", "groups: u32", "each: u32"),
    *("columns: u32", "across: u32", "held: u32", "slots: u32"),
    *("slab: u32", "slabs: u32", "epsilon: f32"),
]


def _group_code(slabs: Slabs, pieces: list[str], y: Value, op: GroupNorm, affine: set[str]) -> str:
    width = slabs.width
    code = f"alias V = {vector(width)};\nalias Y = {y.element if width == 1 else f'vec4<{y.element}>'};\n"
    if pieces[-1] is APPLY:
        activation: Activation = op.activation
        code += activation_function(activation, width)
    wide = pieces[-1] is APPLY
    gaps = {
        "component": "" if width == 1 else "[slot % 4u]",
        "slot_vector": "slot" if width == 1 else "slot / 4u",
        "scale": ("V(scale[c])" if wide else "scale[c]") if "scale" in affine else "V(1.0)"[1 - wide :],
        "shift": ("V(shift[c])" if wide else "shift[c]") if "shift" in affine else "V(0.0)"[1 - wide :],
        "each_component": _each_component(width),
    }
    shared = "var<workgroup> parts: array<vec4<f32>, 256>;\nvar<workgroup> moments: array<vec4<f32>, 32>;\n"
    if MEASURE in pieces:
        shared += "var<workgroup> sums: array<V, 256>;\nvar<workgroup> squares: array<V, 256>;\n"
    return code + shared + MOVED + MAIN + "".join(fill(piece, **gaps) for piece in pieces) + "}\n"


def _each_component(width: int) -> str:
    """Return WGSL that looks up the group of each channel of a vector, which may have channels of several."""
    names = ("high", "low", "factor")
    if width == 1:
        return "let m = moments[c0 / p.each]; high = m.x; low = m.y; factor = m.z;"
    return " ".join(
        f"let m{i} = moments[(c0 * 4u + {i}u) / p.each]; "
        + " ".join(f"{name}.{axis} = m{i}.{part};" for name, part in zip(names, "xyz", strict=True))
        for i, axis in enumerate("xyzw")
    )


def normalize_layers(op: LayerNorm, gpu: Gpu, step: str = "") -> list[Dispatch]:
    """Return one dispatch; deviations are summed in a second pass, over registers where a row fits them."""
    rows = choose_rows(op.channels)
    affine = {"scale": op.scale, "shift": op.shift}
    reads = {"x": (op.x, rows.width)}
    reads |= {key: (value, rows.width) for key, value in affine.items() if value is not None}
    used = tuple(value for value, _ in reads.values())
    fields = ["rows: u32", "columns: u32", "count: f32", "epsilon: f32"]
    code = header(reads, {"y": (op.y, rows.width)}, fields, half=has_half((*used, op.y)))
    kind = vector(rows.width)
    code += f"alias Y = {op.y.element if rows.width == 1 else f'vec4<{op.y.element}>'};\n"
    code += meeting("moments", "vec2<f32>", "a + b", rows.lanes) + row_start(rows)
    code += f"  var sums = {kind}(0.0);\n  var squares = {kind}(0.0);\n" + visit(rows, "sums += $v;")
    code += (
        f"  let total = meet_moments(vec2<f32>({folded('+', rows.width, 'sums')}, 0.0), t).x;\n"
        f"  let mean = total / p.count;\n  sums = {kind}(0.0);\n"
        + visit(rows, "let d = $v - mean; sums += d; squares += d * d;")
        + f"  let own = vec2<f32>({folded('+', rows.width, 'sums')}, {folded('+', rows.width, 'squares')});\n"
        "  let met = meet_moments(own, t) / p.count;\n"
        "  // What rounding the mean left over.\n"
        "  let low = met.x;\n"
        "  let factor = 1.0 / sqrt(met.y - low * low + p.epsilon);\n"
    )
    scale = f"{kind}(scale[$c])" if op.scale is not None else "1.0"
    shift = f"{kind}(shift[$c])" if op.shift is not None else "0.0"
    body = f"y[base + $c] = Y((($v - mean) - low) * factor * {scale} + {shift});"
    code += f"  if (row < p.rows) {{\n{visit(rows, body)}  }}\n}}\n"
    return [
        Dispatch(
            kernel=Kernel(f"layer norm, {rows.lanes} lanes", code),
            reads=used,
            writes=(op.y,),
            groups=groups_for(-(-op.rows // rows.rows), gpu.workgroups),
            params=(op.rows, op.channels // rows.width, float(op.channels), float(op.epsilon)),
            flops=7 * op.rows * op.channels,
            step=step,
        )
    ]
