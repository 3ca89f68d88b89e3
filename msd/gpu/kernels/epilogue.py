"""An epilogue in WGSL: what happens to sums before they are written."""

from __future__ import annotations

from dataclasses import dataclass

from msd.gpu.activation import activation_function
from msd.gpu.operations import Conv2D, Filter
from msd.gpu.value import Value
from msd.gpu.wgsl import fill

_FUNCTIONS = """
$activate
$slope
$gelu
fn put(row: u32, column: u32, sums: vec4<f32>) -> vec4<f32> {
    if (row >= p.rows || column >= p.out_columns4) { return vec4<f32>(0.0); }
    var v = $slopes(activate(sums$vector)$column);
    $residual
    $write
    return v;
}
$factor
fn shift(column: u32) -> vec4<f32> { return $shift; }
"""

_SLOPE = """
fn sloped(v: vec4<f32>, column: u32) -> vec4<f32> {
    return select(v, v * slopes[column], v < vec4<f32>(0.0));
}
"""

_PLAIN = """
fn finish(row: u32, column: u32, sums: vec4<f32>) {
    let at = min(column, p.columns4 - 1u);
    put(row, column, fma(sums, factor(at), shift(at)));
}
"""

_GATED = """
fn finish(row: u32, column: u32, values: vec4<f32>, gates: vec4<f32>) {
    let at = min(2u * column, p.columns4 - 2u);
    let gate = fma(gates, factor(at + 1u), shift(at + 1u));
    put(row, column, fma(values, factor(at), shift(at)) * gelu(gate));
}
"""


@dataclass(frozen=True)
class Finish:
    """`functions` declare finish(row, column, sums), or finish(row, column, values, gates) with a gate.

    It writes to the binding `y`; `column` counts vectors of four of the result, and rows and columns outside
    are left out. `reads` are its bindings, `params` its parameters and their numbers.
    """

    functions: str
    reads: dict[str, tuple[Value, int]]
    writes: dict[str, tuple[Value, int]]
    params: dict[str, int]


def finish(op: Conv2D, factor: float = 1.0) -> Finish:
    """Return the end of a convolution; raises ValueError for a gate of columns not in pairs of fours.

    `factor` multiplies each sum, with the column's scale.
    """
    after = op.epilogue
    if after.gate and (op.filter.columns % 8 or after.activation != "NONE" or after.vector or after.slopes):
        raise ValueError(
            "a gate needs filter columns in pairs of four, and neither an activation nor a vector"
        )
    wide = 4 if op.outputs % 4 == 0 else 1
    step = op.outputs if after.vector_row is None else after.vector_row
    far = wide if step % 4 == after.vector_at % 4 == 0 else 1
    names = ("bias", "slopes", "vector", "residual")
    reads = {"scale": op.filter.scale} | {name: getattr(after, name) for name in names}
    widths = {"scale": 4, "bias": 4, "slopes": 4, "vector": far, "residual": wide}
    functions = fill(
        _FUNCTIONS,
        activate=activation_function(after.activation, 4),
        slope=_SLOPE if after.slopes else "",
        slopes="sloped" if after.slopes else "",
        column=", column" if after.slopes else "",
        gelu=activation_function(after.gate, 4, "gelu") if after.gate else "",
        vector=f" + {_read_vector(far)}" if after.vector else "",
        residual=f"v += {_read(op, 'residual', 'row', wide)};" if after.residual else "",
        write=_write(op, wide),
        factor=factor_function(op.filter, factor),
        shift="bias[column]" if after.bias else "vec4<f32>(0.0)",
    )
    return Finish(
        functions + (_GATED if after.gate else _PLAIN),
        {name: (value, widths[name]) for name, value in reads.items() if value is not None},
        {"y": (op.y, wide)},
        {
            "rows": op.pixels,
            "columns4": -(-op.filter.columns // 4),
            "out_columns": op.outputs,
            "out_columns4": -(-op.outputs // 4),
            "image_pixels": op.out_height * op.out_width,
            "vector_at": after.vector_at // far,
            "vector_row": step // far,
        }
        | ({} if op.y_row is None else {"y_at4": op.y_at // 4, "y_row4": op.y_row // 4}),
    )


def factor_function(filter_: Filter, factor: float) -> str:
    """Return the WGSL of factor(column): the column's scale, four of them, times `factor`."""
    scale = "scale[column]" if filter_.scale else "vec4<f32>(1.0)"
    return f"fn factor(column: u32) -> vec4<f32> {{ return {scale} * {factor!r}; }}\n"


def _read(op: Conv2D, name: str, row: str, wide: int) -> str:
    """Return four columns of a row of an activation as f32; past the last column, the last's."""
    if wide == 4:
        return f"vec4<f32>({name}[{row} * p.out_columns4 + column])"
    at = f"{row} * p.out_columns + min(column * 4u + {{}}u, p.out_columns - 1u)"
    parts = ", ".join(f"f32({name}[{at.format(i)}])" for i in range(4))
    return f"vec4<f32>({parts})"


def _read_vector(wide: int) -> str:
    """Return four columns of the vector of a row's image as f32; past the last column, the last's."""
    first = "p.vector_at + row / p.image_pixels * p.vector_row"
    if wide == 4:
        return f"vec4<f32>(vector[{first} + column])"
    at = "min(column * 4u + {}u, p.out_columns - 1u)"
    parts = ", ".join(f"f32(vector[{first} + {at.format(i)}])" for i in range(4))
    return f"vec4<f32>({parts})"


def _write(op: Conv2D, wide: int) -> str:
    kind = op.y.element
    if wide == 4:
        if op.y_row is not None:
            return f"y[p.y_at4 + row * p.y_row4 + column] = vec4<{kind}>(v);"
        return f"y[row * p.out_columns4 + column] = vec4<{kind}>(v);"
    lines = ["let first = row * p.out_columns + column * 4u;"]
    for i, part in enumerate("xyzw"):
        store = f"y[first + {i}u] = {kind}(v.{part});"
        lines.append(store if i == 0 else f"if (column * 4u + {i}u < p.out_columns) {{ {store} }}")
    return "\n    ".join(lines)
