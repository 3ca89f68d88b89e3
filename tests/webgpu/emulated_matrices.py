"""Kernels for matrix units, run on a GPU that has none: each subgroup matrix becomes an array of its numbers.

A thread has a row of a left matrix, some columns of a right one, and of the result what these give. The text
around them, its barriers and its places in workgroup memory stay as they are. Subgroups are imagined: as many
threads in a row as the matrix unit's have.
"""

from __future__ import annotations

import re
from dataclasses import replace

from msd.gpu.gpu import MatrixUnit
from msd.gpu.kernels.matrix_tile import ENABLE
from msd.gpu.value import Dispatch

KIND = re.compile(r"subgroup_matrix_(left|right|result)<f(?:16|32), (\d+), (\d+)>")
PITCH = r"([\w.]+|p\.columns4 \* 4u)"
LOAD = re.compile(rf"subgroupMatrixLoad<{KIND.pattern}>\(&(\w+), (.*), (true|false), {PITCH}\)")
STORE = re.compile(rf"subgroupMatrixStore\(&(\w+), (.*), (\w+), (true|false), {PITCH}\)")
PRODUCT = re.compile(r"subgroupMatrixMultiplyAccumulate\((\w+), (\w+), (\w+)\)")

NEIGHBOUR = """
var<workgroup> neighbours: array<f32, $threads>;
fn neighbour(value: f32, thread: u32, distance: u32) -> f32 {
  neighbours[thread] = value;
  workgroupBarrier();
  let found = neighbours[thread ^ distance];
  workgroupBarrier();
  return found;
}
"""


def emulated(dispatch: Dispatch, unit: MatrixUnit) -> Dispatch:
    """Return the dispatch without matrix units; what is stored must be f32, and subgroups as wide as matrices
    have rows, or a multiple. Raises AssertionError where something of subgroups is left."""
    text = dispatch.kernel.wgsl.replace(ENABLE, "")
    functions: dict[str, str] = {}
    subgroup, each = unit.subgroup, unit.columns * unit.rows // unit.subgroup
    sizes = {"left": unit.depth, "right": unit.depth * each, "result": each}

    def load(found: re.Match[str]) -> str:
        kind, columns, rows, array, at, transposed, pitch = found.groups()
        name = re.sub(r"\W+", "_", f"load_{array}_{kind}_{transposed}_{pitch}")
        place = f"column * ({pitch}) + row" if transposed == "true" else f"row * ({pitch}) + column"
        functions[name] = _load(name, array, kind, int(rows), int(columns), each, place)
        return f"{name}({at}, lane)"

    def store(found: re.Match[str]) -> str:
        array, at, value, transposed, pitch = found.groups()
        name = re.sub(r"\W+", "_", f"store_{array}_{transposed}_{pitch}")
        functions[name] = _store(name, array, each, pitch, transposed == "true")
        return f"{name}({at}, {value}, lane)"

    text = re.sub(r"bitcast<vec4<f16>>\((\w+)\.(.)(.)\)", _four_halves, text)
    text = re.sub(r"bitcast<vec2<f16>>\((.*)\) -", r"vec2<f16>(unpack2x16float(\1)) -", text)
    text = PRODUCT.sub(r"multiplied(\1, \2, \3)", STORE.sub(store, LOAD.sub(load, text)))
    text = KIND.sub(lambda found: f"array<f32, {sizes[found[1]]}>", text)
    functions["multiplied"] = _multiplied(unit.depth, each)
    text, functions["neighbour"] = _imagined(text, subgroup)
    at = text.index("@compute")
    text = text[:at] + f"const ROWS = {unit.rows}u;\n" + "\n".join(functions.values()) + text[at:]
    return replace(dispatch, kernel=replace(dispatch.kernel, wgsl=text))


def emulated_in_floats(dispatch: Dispatch, unit: MatrixUnit) -> Dispatch:
    """Return the dispatch without matrix units and without halves, but for those that are read by words."""
    made = emulated(dispatch, unit) if "subgroupMatrix" in dispatch.kernel.wgsl else dispatch
    text = re.sub(r"(\d\.\d)h\b", r"\1f", made.kernel.wgsl.replace("enable f16;", ""))
    text = text.replace("f16", "f32")
    return replace(made, kernel=replace(made.kernel, wgsl=text))


def _four_halves(found: re.Match[str]) -> str:
    """Return what naga 0.32, which takes such a cast for one to f32, understands."""
    name, *parts = found.groups()
    return "vec4<f16>(vec4<f32>(" + ", ".join(f"unpack2x16float({name}.{part})" for part in parts) + "))"


def _imagined(text: str, subgroup: int) -> tuple[str, str]:
    """Return the text with threads counted across the workgroup, and the function that it then needs."""
    text = re.sub(r"subgroupShuffleXor\((\w+), (\d+)u\)", r"neighbour(\1, thread, \2u)", text)
    text = text.replace(
        "@builtin(subgroup_id) subgroup: u32,\n        @builtin(subgroup_invocation_id) lane: u32",
        "@builtin(local_invocation_index) number: u32",
    )
    text = text.replace(
        f"let thread = subgroup * {subgroup}u + lane;",
        f"let thread = number;\n  let subgroup = number / {subgroup}u;\n  let lane = number % {subgroup}u;",
    )
    text = text.replace(", @builtin(subgroup_id) subgroup: u32", "")
    text = text.replace("let lane = thread %", f"let subgroup = thread / {subgroup}u;\nlet lane = thread %")
    left = re.findall(r".*subgroup(?:_|M).*", text)
    assert not left, left
    threads = re.search(r"@workgroup_size\((\d+)\)", text)
    assert threads is not None
    return text, NEIGHBOUR.replace("$threads", threads[1]) if "neighbour(" in text else ""


def _load(name: str, array: str, kind: str, rows: int, columns: int, each: int, place: str) -> str:
    """Return a function whose result is what a thread needs: its row, or its columns, or both."""
    down = 1 if kind != "right" else rows
    across = columns if kind == "left" else each
    row = "lane % ROWS" if kind != "right" else "r"
    column = "c" if kind == "left" else f"lane / ROWS * {each}u + c"
    return f"""fn {name}(at: u32, lane: u32) -> array<f32, {down * across}> {{
  var m: array<f32, {down * across}>;
  for (var r = 0u; r < {down}u; r++) {{
    for (var c = 0u; c < {across}u; c++) {{
      let row = {row};
      let column = {column};
      m[r * {across}u + c] = f32({array}[at + {place}]);
    }}
  }}
  return m;
}}"""


def _store(name: str, array: str, each: int, pitch: str, transposed: bool) -> str:
    """Return a function by which a thread writes its part of a matrix."""
    row, column = "lane % ROWS", f"(lane / ROWS * {each}u + c)"
    place = f"{column} * ({pitch}) + {row}" if transposed else f"{row} * ({pitch}) + {column}"
    return f"""fn {name}(at: u32, m: array<f32, {each}>, lane: u32) {{
  var mine = m;
  for (var c = 0u; c < {each}u; c++) {{
    {array}[at + {place}] = mine[c];
  }}
}}"""


def _multiplied(depth: int, each: int) -> str:
    left, right, result = (f"array<f32, {n}>" for n in (depth, depth * each, each))
    return f"""fn multiplied(left: {left}, right: {right}, sums: {result}) -> {result} {{
  var a = left;
  var b = right;
  var c = sums;
  for (var k = 0u; k < {depth}u; k++) {{
    for (var j = 0u; j < {each}u; j++) {{ c[j] += a[k] * b[k * {each}u + j]; }}
  }}
  return c;
}}"""
