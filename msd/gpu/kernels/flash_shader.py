"""The WGSL of FlashAttention: one shader for each tile and size of heads, whatever the lengths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import log2

from msd.gpu.kernels.flash_copy import AT_ONCE, RowCopy, block_of
from msd.gpu.kernels.flash_tile import FlashTile
from msd.gpu.wgsl import fill

LOWEST = "-3.4028234e38"
LOG2_E = 1.4426950408889634
HEADROOM = 16.0
"""What queries are divided by where scores are short sums in f16, so that scores up to a million fit."""
SHARES = 32
"""What probabilities are divided by where f16 sums them: 20 of them times values then stay in range."""

LOADS = {
    4: "fn load_$name(base: u32, i: u32) -> vec4<$element> { return $array[base + i]; }\n",
    1: """fn load_$name(base: u32, i: u32) -> vec4<$element> {
  var four = vec4<$element>();
  if (4u * i < ${size}u) { four.x = $array[base + 4u * i]; }
  if (4u * i + 1u < ${size}u) { four.y = $array[base + 4u * i + 1u]; }
  if (4u * i + 2u < ${size}u) { four.z = $array[base + 4u * i + 2u]; }
  if (4u * i + 3u < ${size}u) { four.w = $array[base + 4u * i + 3u]; }
  return four;
}
""",
}
"""Vector number `i` of the row that begins at `base`, by the width of the arrays."""

STORES = {
    4: "fn store(base: u32, i: u32, v: vec4<f32>) { y[base + i] = vec4<$y_element>(v); }\n",
    1: """fn store(base: u32, i: u32, v: vec4<f32>) {
  y[base + 4u * i] = $y_element(v.x);
  if (4u * i + 1u < ${size}u) { y[base + 4u * i + 1u] = $y_element(v.y); }
  if (4u * i + 2u < ${size}u) { y[base + 4u * i + 2u] = $y_element(v.z); }
  if (4u * i + 3u < ${size}u) { y[base + 4u * i + 3u] = $y_element(v.w); }
}
""",
}

PART = "fn store(base: u32, i: u32, v: vec4<f32>) { parts[base + i] = v; }\n"
"""What is kept of a piece of the keys: sums of values, relative to the row's reference."""

SHADER = """
alias T = vec4<$stored>;
alias Rows = $parts_type;
// Indices that are constant, or the same in all rounds of a loop, cost no bounds checks inside it.
// Vector d of query i*down + ty is at [d][i][ty].
var<workgroup> query_tile: array<array<array<T, $down>, $rows>, $depth>;
// The keys: number 4*d + j of the keys 4*tx to 4*tx + 3 is the vector at [d][j][tx]. Then, once the scores
// are known, the values: vector c*across + tx of key 4*x + j is at [c*across + x][j][tx].
var<workgroup> key_tile: array<array<array<T, $across>, 4>, $length>;
// Of query i*down + ty, key 4*x + j: component j at [i][ty][x].
var<workgroup> probabilities: array<array<array<T, $padded>, $down>, $rows>;
// What each invocation knows of its rows, four in a vector.
var<workgroup> row_parts: array<array<array<Rows, $padded>, $down>, $part_vectors>;

@compute @workgroup_size($invocations)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let tx = t % ${across}u;
  let ty = t / ${across}u;
  let first = group.x * ${queries}u;
$piece
  let q_base = p.q_offset + batch * p.q_batch + group.y * p.q_head;
  let k_base = p.k_offset + batch * p.k_batch + group.y * p.k_head;
  let v_base = p.v_offset + batch * p.v_batch + group.y * p.v_head;
$load_queries
$declare
$first_keys
  for (var start = first_key; start < last_key; start += ${keys}u) {
$store_keys
    workgroupBarrier();
$load_values
$zero_scores
    for (var d = 0u; d < ${depth}u; d += ${depth_step}u) {
$scores
    }
$scale
    workgroupBarrier();
$store_values
$softmax
    workgroupBarrier();
$load_keys
    for (var x = 0u; x < ${across}u; x += ${across_step}u) {
$results
    }
    workgroupBarrier();
  }
$finish
}
"""


def flash_wgsl(
    tile: FlashTile, size: int, value_size: int, width: int, elements: tuple[str, str], masked: bool
) -> str:
    """Return all of the shader behind its bindings q, k, v, y and mask, whose elements are `width` wide.

    `elements`: the types of q, k and v, and of y.
    """
    depth, columns = -(-size // 4), -(-value_size // 4)
    vectors = tile.vectors(value_size)
    gaps = {"element": elements[0], "y_element": elements[1]}
    code = "".join(
        fill(LOADS[width], name=name, array=name, size=value_size if name == "v" else size, **gaps)
        for name in "qkv"
    )
    code += PART if tile.pieces > 1 else fill(STORES[width], size=value_size, **gaps)
    return code + fill(
        SHADER,
        piece=_lines(1, piece_lines(tile.pieces)),
        stored=tile.stored,
        parts_type="f32" if tile.rows == 1 else f"vec{min(tile.rows, 4)}<f32>",
        length=tile.length(size, value_size),
        part_vectors=tile.part_vectors,
        padded=tile.across + 1,
        invocations=tile.invocations,
        across=tile.across,
        down=tile.down,
        rows=tile.rows,
        queries=tile.queries,
        keys=tile.keys,
        depth=depth,
        depth_step=_unrolled(depth),
        across_step=_unrolled(tile.across),
        declare=_lines(1, _declare(tile, vectors)),
        zero_scores=_lines(2, (f"var s{i} = vec4<f32>(0.0);" for i in range(tile.rows))),
        scores=_lines(3, _score_products(tile, _unrolled(depth))),
        scale=_lines(2, _scale(tile, masked)),
        softmax=_lines(2, _softmax(tile, vectors)),
        results=_lines(3, _result_products(tile, vectors, _unrolled(tile.across))),
        finish=_lines(1, _finish(tile, vectors, columns)),
        **_copies(tile, depth, columns),
    )


def _copies(tile: FlashTile, depth: int, columns: int) -> dict[str, str]:
    """Return the shader's gaps that copy to workgroup memory."""
    row, inside, across = "min({} + $r, p.{} - 1u)", tile.invocations, tile.across
    queries = RowCopy(
        name="q",
        invocations=inside,
        rows=tile.queries,
        vectors=depth,
        block=block_of(tile.queries),
        row=row.format("first", "queries"),
        place=f"query_tile[$c][$r / {tile.down}u][$r % {tile.down}u]",
        factor=f"p.scale * {1 / HEADROOM}" if tile.short_sums else "",
    )
    first = replace(
        queries,
        name="k",
        rows=tile.keys,
        block=block_of(across),
        row=row.format("first_key", "keys"),
        place="key_tile[$c][$j][$r]",
        factor="",
        transposed=True,
    )
    keys, after = (replace(first, row=row.format(at, "keys")) for at in ("start", f"start + {tile.keys}u"))
    values = replace(
        keys,
        name="v",
        vectors=columns,
        block=1,
        place=f"key_tile[$c / {across}u * {across}u + $r / 4u][$r % 4u][$c % {across}u]",
        transposed=False,
    )
    ahead = tile.ahead and max(keys.each, values.each) <= AT_ONCE
    return {
        "load_queries": _lines(1, queries.at_once()),
        "first_keys": _lines(1, first.load("next_k", "var ")) if ahead else "",
        "store_keys": _lines(2, keys.store("next_k") if ahead else keys.at_once()),
        "load_values": _lines(2, values.load("next_v", "let ")) if ahead else "",
        "store_values": _lines(2, values.store("next_v") if ahead else values.at_once()),
        "load_keys": _lines(2, after.load("next_k", "")) if ahead else "",
    }


def piece_lines(pieces: int) -> Iterator[str]:
    """Yield lines that say which keys a workgroup has, a whole number of steps but for the last."""
    if pieces == 1:
        yield from ("let batch = group.z;", "let first_key = 0u;", "let last_key = p.keys;")
        return
    yield f"let batch = group.z / {pieces}u;"
    yield f"let piece = group.z % {pieces}u;"
    yield "let first_key = piece * p.piece_keys;"
    yield "let last_key = min(first_key + p.piece_keys, p.keys);"


def _unrolled(count: int) -> int:
    """Return how many rounds of a loop become one: compilers cannot unroll loops that WebGPU bounds."""
    return next(n for n in (4, 5, 2, 1) if count % n == 0)


def _lines(depth: int, lines: Iterator[str]) -> str:
    return "\n".join("  " * depth + line for line in lines)


def _declare(tile: FlashTile, vectors: int) -> Iterator[str]:
    for i in range(tile.rows):
        yield f"var maximum{i} = {LOWEST};"
        yield f"var sum{i} = 0.0;"
        yield from (f"var o{i}_{c} = vec4<f32>(0.0);" for c in range(vectors))


def _score_products(tile: FlashTile, steps: int) -> Iterator[str]:
    """A query's scores with four keys are a vector; each number of the query meets the keys' at once.

    With short sums, the products of `steps` vectors are summed as they are stored.
    """
    kind, sums = _summed(tile, "h", "s")
    yield from (f"var h{i} = T();" for i in range(tile.rows) if tile.short_sums)
    for step in range(steps):
        yield "{"
        yield from (f"let q{i} = {kind}(query_tile[d + {step}u][{i}][ty]);" for i in range(tile.rows))
        for j, axis in enumerate("xyzw"):
            yield f"let k{j} = {kind}(key_tile[d + {step}u][{j}][tx]);"
            yield from (f"{sums}{i} = fma({kind}(q{i}.{axis}), k{j}, {sums}{i});" for i in range(tile.rows))
        yield "}"
    yield from (f"s{i} += vec4<f32>(h{i});" for i in range(tile.rows) if tile.short_sums)


def _summed(tile: FlashTile, short: str, long: str) -> tuple[str, str]:
    """Return the type in which products are summed first, and what the sums are called: `short` or `long`."""
    return ("T", short) if tile.short_sums else ("vec4<f32>", long)


def _write_parts(tile: FlashTile, value: str) -> Iterator[str]:
    """Yield lines that tell the invocations of the same rows this one's `value` of each."""
    for n in range(tile.part_vectors):
        rows = range(4 * n, min(4 * n + 4, tile.rows))
        own = ", ".join(value.replace("$i", str(i)) for i in rows)
        yield f"row_parts[{n}][ty][tx] = Rows({own});"


def _join_parts(tile: FlashTile, start: str, join: str) -> Iterator[str]:
    """Yield lines that join what these invocations told: `joined0` … are vectors of four rows."""
    for n in range(tile.part_vectors):
        rows = range(4 * n, min(4 * n + 4, tile.rows))
        yield f"var joined{n} = Rows({', '.join(start.replace('$i', str(i)) for i in rows)});"
        for x in range(tile.across):
            part = f"row_parts[{n}][ty][{x}]"
            yield f"joined{n} = {join.replace('$a', f'joined{n}').replace('$b', part)};"


def _joined(tile: FlashTile, row: int) -> str:
    return f"joined{row // 4}" + ("" if tile.rows == 1 else f".{'xyzw'[row % 4]}")


def _scale(tile: FlashTile, masked: bool) -> Iterator[str]:
    """Scores become exponents of two; keys past the last are lower than whatever a mask makes of others."""
    for i in range(tile.rows):
        yield f"s{i} *= {HEADROOM if tile.short_sums else 'p.scale'};"
        for j, axis in enumerate("xyzw" if masked else ""):
            row = f"min(first + ty + {i * tile.down}u, p.queries - 1u)"
            key = f"min(start + 4u * tx + {j}u, p.keys - 1u)"
            bias = f"{LOG2_E} * mask[{row} * p.keys + {key}]"
            yield f"s{i}.{axis} = max(s{i}.{axis} + {bias}, -1e38);"
    yield f"if (start + {tile.keys}u > p.keys) {{"
    for j, axis in enumerate("xyzw"):
        low = " ".join(f"s{i}.{axis} = {LOWEST};" for i in range(tile.rows))
        yield f"  if (start + 4u * tx + {j}u >= p.keys) {{ {low} }}"
    yield "}"
    yield from _write_parts(tile, "max(max(s$i.x, s$i.y), max(s$i.z, s$i.w))")


def _softmax(tile: FlashTile, vectors: int) -> Iterator[str]:
    """Milakov & Gimelshein, arXiv 1805.02867: what was summed so far shrinks as the maximum grows."""
    yield from _join_parts(tile, "maximum$i", "max($a, $b)")
    for i in range(tile.rows):
        yield f"let new{i} = {_joined(tile, i)};"
        yield f"let shrink{i} = exp2(maximum{i} - new{i});"
        yield f"let e{i} = exp2(s{i} - (new{i} + {log2(SHARES) if tile.short_sums else 0.0}));"
        yield f"maximum{i} = new{i};"
        yield f"sum{i} = sum{i} * shrink{i} + (e{i}.x + e{i}.y) + (e{i}.z + e{i}.w);"
        yield from (f"o{i}_{c} *= shrink{i};" for c in range(vectors))
        yield f"probabilities[{i}][ty][tx] = T(e{i});"


def _result_products(tile: FlashTile, vectors: int, steps: int) -> Iterator[str]:
    """Vector x of the probabilities belongs to the keys 4*x to 4*x + 3.

    With short sums, the products of `4 * steps` keys are summed as they are stored.
    """
    kind, sums = _summed(tile, "g", "o")
    each = [(i, c) for i in range(tile.rows) for c in range(vectors)]
    yield from (f"var g{i}_{c} = T();" for i, c in each if tile.short_sums)
    for step in range(steps):
        yield "{"
        for i in range(tile.rows):
            yield f"let e{i} = {kind}(probabilities[{i}][ty][x + {step}u]);"
        for j, axis in enumerate("xyzw"):
            for c in range(vectors):
                yield f"let v{j}_{c} = {kind}(key_tile[x + {step + c * tile.across}u][{j}][tx]);"
                for i in range(tile.rows):
                    yield f"{sums}{i}_{c} = fma({kind}(e{i}.{axis}), v{j}_{c}, {sums}{i}_{c});"
        yield "}"
    yield from (f"o{i}_{c} += vec4<f32>(g{i}_{c});" for i, c in each if tile.short_sums)


def _finish(tile: FlashTile, vectors: int, columns: int) -> Iterator[str]:
    yield from _write_parts(tile, "sum$i")
    yield "workgroupBarrier();"
    yield from _join_parts(tile, "0.0", "$a + $b")
    if tile.pieces > 1:
        yield "let first_row = ((piece * p.batches + batch) * p.heads + group.y) * p.queries + first;"
    else:
        yield "let first_row = p.y_offset + batch * p.y_batch + group.y * p.y_head + first * p.y_row;"
    for i in range(tile.rows):
        row = f"ty + {i * tile.down}u"
        yield f"if (first + {row} < p.queries) {{"
        if tile.pieces > 1:
            yield f"  let to_row = (first_row + {row}) * {columns}u;"
            known = f"vec2<f32>(maximum{i}, {_joined(tile, i)})"
            yield f"  if (tx == 0u) {{ statistics[first_row + {row}] = {known}; }}"
        else:
            yield f"  let to_row = first_row + ({row}) * p.y_row;"
        for c in range(vectors):
            column = f"tx + {c * tile.across}u"
            guard = f"if ({column} < {columns}u) " if columns % tile.across else ""
            divided = "" if tile.pieces > 1 else f" / {_joined(tile, i)}"
            yield f"  {guard}{{ store(to_row, {column}, o{i}_{c}{divided}); }}"
        yield "}"
