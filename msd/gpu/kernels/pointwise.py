"""Pointwise operations and rearrangements: one kernel, whose operands are read and written by strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from msd.gpu.activation import activation_function
from msd.gpu.gpu import Gpu
from msd.gpu.operations import Activation
from msd.gpu.value import Dispatch, Kernel, Value
from msd.gpu.wgsl import element_type, fill, groups_for, header

WORKGROUP = 256

BINARY = {
    "ADD": "$a + $b",
    "SUB": "$a - $b",
    "MUL": "$a * $b",
    "DIV": "$a / $b",
    "PRELU": "select($a, $a * $b, $a < $zero)",
    "MAXIMUM": "max($a, $b)",
    "MINIMUM": "min($a, $b)",
    "SQUARED_DIFFERENCE": "($a - $b) * ($a - $b)",
}
UNARY = {
    "ABS": "abs($a)",
    "EXP": "exp($a)",
    "LOG": "log($a)",
    "NEG": "-$a",
    "RSQRT": "inverseSqrt($a)",
    "SQRT": "sqrt($a)",
    "SQUARE": "$a * $a",
}
"""Without sine and cosine, for which WebGPU allows errors of 2^-11."""

IDENTITY = "$a"

_BODY = """
@compute @workgroup_size($workgroup) fn main(
    @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32) {
  let n = (group.x + group.y * groups.x) * ${workgroup}u + lane;
  if (n >= p.count) { return; }
  var rest = n;
$coordinates
$loads
  let result = activate($expression);
  y[$index] = $stored(result);
}
"""


@dataclass(frozen=True)
class Strided:
    """A value read or written at offset + sum(i * strides) for each index i of the result; 0 repeats it."""

    value: Value
    strides: tuple[int, ...]
    offset: int = 0


def compute(
    expression: str,
    operands: Sequence[Strided],
    y: Strided,
    shape: tuple[int, ...],
    gpu: Gpu,
    activation: Activation = "NONE",
    step: str = "",
) -> list[Dispatch]:
    """Return the dispatch of y = activation(expression), whose operands are called $a and $b.

    $zero is a zero of their type. The indices run over `shape`. Vectors of four are used where the last axis
    and all strides divide by four. Integers are only moved, by `IDENTITY`.
    """
    sizes, strides = collapse(shape, [each.strides for each in (y, *operands)])
    parts = list(zip((y, *operands), strides, strict=True))
    integers = y.value.element in ("i32", "u32")
    # A dispatch can bind a value that it reads twice only once, as vectors or as scalars.
    mixed = len({each.value for each in operands}) < len({(e.value, s[-1]) for e, s in parts[1:]})
    width = 4 if not (integers or mixed) and _fits_vectors(sizes, parts) else 1
    if width == 4:
        sizes = (*sizes[:-1], sizes[-1] // 4)
    kernel, params = _kernel(expression, parts, sizes, width, activation, gpu)
    count = prod(sizes)
    return [
        Dispatch(
            kernel=kernel,
            reads=tuple(dict.fromkeys(each.value for each in operands)),
            writes=(y.value,),
            groups=groups_for(-(-count // WORKGROUP), gpu.workgroups),
            params=(count, *params),
            flops=0 if expression == IDENTITY else prod(shape),
            step=step,
        )
    ]


def collapse(
    shape: tuple[int, ...], strides: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Return fewer axes with the same meaning: neighbours are one where all strides allow it."""
    axes = [i for i, size in enumerate(shape) if size != 1] or [len(shape) - 1] * bool(shape)
    sizes: list[int] = []
    kept: list[list[int]] = [[] for _ in strides]
    for axis in axes:
        if sizes and all(
            own[-1] == each[axis] * shape[axis] for own, each in zip(kept, strides, strict=True)
        ):
            sizes[-1] *= shape[axis]
            for own, each in zip(kept, strides, strict=True):
                own[-1] = each[axis]
            continue
        sizes.append(shape[axis])
        for own, each in zip(kept, strides, strict=True):
            own.append(each[axis])
    return tuple(sizes) or (1,), [tuple(own) or (0,) for own in kept]


def _fits_vectors(sizes: tuple[int, ...], parts: Sequence[tuple[Strided, tuple[int, ...]]]) -> bool:
    """Whether four consecutive indices read and write vectors, or one element each."""

    def fits(each: Strided, strides: tuple[int, ...], written: bool) -> bool:
        if strides[-1] == 0 and not written:
            return True
        aligned = all(stride % 4 == 0 for stride in (*strides[:-1], each.offset))
        return strides[-1] == 1 and aligned

    return sizes[-1] % 4 == 0 and all(fits(*part, i == 0) for i, part in enumerate(parts))


def _kernel(
    expression: str,
    parts: Sequence[tuple[Strided, tuple[int, ...]]],
    sizes: tuple[int, ...],
    width: int,
    activation: Activation,
    gpu: Gpu,
) -> tuple[Kernel, list[int]]:
    """Return the kernel, and its parameters after the count: sizes, then each part's offset and strides."""
    rank, names = len(sizes), ("y", "a", "b")
    fields, params = [f"n{k}: u32" for k in range(1, rank)], list(sizes[1:])
    bindings: dict[str, tuple[Value, int]] = {}
    loads: list[str] = []
    indices: dict[str, str] = {}
    integers = parts[0][0].value.element in ("i32", "u32")
    real = parts[0][0].value.element if integers else element_type("f32", width)
    for name, (each, strides) in zip(names, parts, strict=False):
        wide = width if strides[-1] else 1
        units = [stride // wide for stride in strides[:-1]] + [strides[-1]]
        fields += [f"{name}_at: u32", *(f"{name}{k}: u32" for k in range(rank))]
        params += [each.offset // wide, *units]
        terms = [f"c{k} * p.{name}{k}" for k in range(rank)]
        indices[name] = " + ".join([f"p.{name}_at", *terms])
        bound = next((n for n, (value, _) in bindings.items() if value is each.value), name)
        bindings[bound] = (each.value, wide)
        if name != "y":
            loads.append(f"  let v{name} = {real}({_splat(bound, indices[name], wide, width)});")
    wgsl = header(
        {name: pair for name, pair in bindings.items() if name != "y"},
        {"y": bindings["y"]},
        ["count: u32", *fields],
        half=gpu.half,
    )
    given = {"a": "va", "b": "vb", "zero": f"{real}(0.0)"}
    function = f"fn activate(v: {real}) -> {real} {{ return v; }}\n"
    if not integers:
        function = activation_function(activation, width)
    body = fill(
        _BODY,
        workgroup=WORKGROUP,
        coordinates=_coordinates(rank),
        loads="\n".join(loads),
        expression=fill(expression, **given) if parts[1:] else f"{real}({expression})",
        index=indices["y"],
        stored=element_type(parts[0][0].value.element, width),
    )
    return Kernel(f"pointwise {expression.replace('$', '')}", wgsl + function + body), params


def _splat(name: str, index: str, wide: int, width: int) -> str:
    read = f"{name}[{index}]"
    return f"vec4<f32>(f32({read}))" if width == 4 and wide == 1 else read


def _coordinates(rank: int) -> str:
    """Return the WGSL that splits `rest` into coordinates c0, c1, …; the first needs no remainder."""
    lines = []
    for k in range(rank - 1, 0, -1):
        lines += [f"  let c{k} = rest % p.n{k};", f"  rest = rest / p.n{k};"]
    return "\n".join([*lines, "  let c0 = rest;"])
