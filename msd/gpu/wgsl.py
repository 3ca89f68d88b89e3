"""The parts of a shader that every kernel has: features, type names, bindings and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template

from msd.gpu.gpu import Element
from msd.gpu.value import Value


def header(
    reads: Mapping[str, tuple[Value, int]],
    writes: Mapping[str, tuple[Value, int]],
    params: Sequence[str] = (),
    half: bool = False,
) -> str:
    """Return the declarations of a shader.

    `reads` and `writes` give each binding's variable its value and the width of its elements, 1 or 4; f16
    needs `half`. `params`, such as "rows: u32", become the fields of the uniform `p`. Constants are read-only
    bindings. Activations are read_write ones even where a kernel only reads them, because they share one
    buffer, which WebGPU does not let a dispatch bind in both ways.
    """
    lines = ["enable f16;"] if half else []
    fields = [*((name, pair, "read") for name, pair in reads.items())]
    fields += [(name, pair, "read_write") for name, pair in writes.items()]
    for number, (name, (value, width), access) in enumerate(fields):
        mode = access if value.load is not None else "read_write"
        kind = element_type(value.element, width)
        lines.append(f"@group(0) @binding({number}) var<storage, {mode}> {name}: array<{kind}>;")
    if params:
        lines.append("struct Params { " + ", ".join(params) + " }")
        lines.append(f"@group(0) @binding({len(fields)}) var<uniform> p: Params;")
    return "\n".join(lines) + "\n"


def element_type(element: Element, width: int) -> str:
    """Return WGSL's name of a scalar or of a vector; eight halves are four words."""
    if width == 8:
        return "vec4<u32>"
    return element if width == 1 else f"vec{width}<{element}>"


def fill(template: str, **gaps: object) -> str:
    """Return the template with its `$name` gaps filled; raises KeyError for one that is missing."""
    return Template(template).substitute(gaps)


def groups_for(count: int, most: int) -> tuple[int, int, int]:
    """Return workgroups in x and y for `count` of them where a dimension has at most `most`.

    The kernel computes its index as `group.x + group.y * groups.x` and leaves if that is `count` or more.
    """
    rows = -(-count // most)
    return (-(-count // rows), rows, 1)
