"""The WGSL of FlashAttention for a tile: one shader for each size of heads and each tile, whatever the lengths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msd.webgpu.gpu import BYTES, Element
from msd.webgpu.wgsl import fill

KEYS_EACH = 4
"""The keys of an invocation: their probabilities are a vector."""
LOWEST = "-3.4028234e38"


@dataclass(frozen=True)
class Tile:
    """How a workgroup of `across` x `down` invocations computes `down*rows` queries, `4*across` keys at a time.

    Of the scores an invocation computes `rows` x 4, of the result `rows` rows of every `across`-th vector of
    four. Queries, keys, values and probabilities are in workgroup memory as `stored`.
    """

    across: int
    down: int
    rows: int
    stored: Element

    @property
    def queries(self) -> int:
        """The queries of a workgroup."""
        return self.down * self.rows

    @property
    def keys(self) -> int:
        """The keys that are in workgroup memory at a time."""
        return KEYS_EACH * self.across

    @property
    def invocations(self) -> int:
        """The invocations of a workgroup."""
        return self.across * self.down

    def vectors(self, value_size: int) -> int:
        """The vectors of a row of the result that an invocation has."""
        return -(-value_size // (4 * self.across))

    def lengths(self, size: int, value_size: int) -> tuple[int, int, int]:
        """Return the vectors of the arrays of queries, of keys or values, and of probabilities.

        Rows are one vector longer than they need to be: so neighbouring invocations use different banks.
        """
        depth = -(-size // 4)
        keys = depth * (self.keys + 1)
        values = self.keys * self.across * self.vectors(value_size)
        return depth * (self.queries + 1), max(keys, values), self.queries * (self.across + 1)

    def bytes(self, size: int, value_size: int) -> int:
        """Return the bytes of workgroup memory."""
        vectors = sum(self.lengths(size, value_size))
        return vectors * 4 * BYTES[self.stored] + 4 * self.queries * self.across


LOADS = {
    4: "fn load_$name(base: u32, i: u32) -> vec4<f32> { return vec4<f32>($array[base + i]); }\n",
    1: """fn load_$name(base: u32, i: u32) -> vec4<f32> {
  var four = vec4<f32>(0.0);
  if (4u * i < ${size}u) { four.x = f32($array[base + 4u * i]); }
  if (4u * i + 1u < ${size}u) { four.y = f32($array[base + 4u * i + 1u]); }
  if (4u * i + 2u < ${size}u) { four.z = f32($array[base + 4u * i + 2u]); }
  if (4u * i + 3u < ${size}u) { four.w = f32($array[base + 4u * i + 3u]); }
  return four;
}
""",
}
"""Vector number `i` of the row that begins at `base`, by the width of the arrays."""

STORES = {
    4: "fn store(base: u32, i: u32, v: vec4<f32>) { y[base + i] = vec4<$element>(v); }\n",
    1: """fn store(base: u32, i: u32, v: vec4<f32>) {
  y[base + 4u * i] = $element(v.x);
  if (4u * i + 1u < ${size}u) { y[base + 4u * i + 1u] = $element(v.y); }
  if (4u * i + 2u < ${size}u) { y[base + 4u * i + 2u] = $element(v.z); }
  if (4u * i + 3u < ${size}u) { y[base + 4u * i + 3u] = $element(v.w); }
}
""",
}

SHADER = """
alias T = vec4<$stored>;
// Transposed: vector d of row r is at d * (rows + 1) + r.
var<workgroup> query_tile: array<T, $query_length>;
// The keys, transposed; then, once the scores are known, the values, row by row.
var<workgroup> key_tile: array<T, $key_length>;
var<workgroup> probabilities: array<T, $probability_length>;
var<workgroup> row_parts: array<f32, $parts_length>;

@compute @workgroup_size($invocations)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let tx = t % ${across}u;
  let row0 = t / ${across}u * ${rows}u;
  let first = group.x * ${queries}u;
  let q_base = p.q_offset + group.z * p.q_batch + group.y * p.q_head;
  let k_base = p.k_offset + group.z * p.k_batch + group.y * p.k_head;
  let v_base = p.v_offset + group.z * p.v_batch + group.y * p.v_head;
  for (var i = t; i < ${query_vectors}u; i += ${invocations}u) {
    let row = i / ${depth}u;
    let d = i % ${depth}u;
    let from_row = q_base + min(first + row, p.queries - 1u) * p.q_row;
    query_tile[d * ${query_pitch}u + row] = T(load_q(from_row, d));
  }
$declare
  for (var start = 0u; start < p.keys; start += ${keys}u) {
    for (var i = t; i < ${key_vectors}u; i += ${invocations}u) {
      let row = i / ${depth}u;
      let d = i % ${depth}u;
      let from_row = k_base + min(start + row, p.keys - 1u) * p.k_row;
      key_tile[d * ${key_pitch}u + row] = T(load_k(from_row, d));
    }
    workgroupBarrier();
$zero_scores
    for (var d = 0u; d < ${depth}u; d++) {
$scores
    }
$scale
    workgroupBarrier();
    for (var i = t; i < ${value_vectors}u; i += ${invocations}u) {
      let row = i / ${columns}u;
      let c = i % ${columns}u;
      var v = vec4<f32>(0.0);
      if (start + row < p.keys) { v = load_v(v_base + (start + row) * p.v_row, c); }
      key_tile[row * ${value_pitch}u + c] = T(v);
    }
$softmax
    workgroupBarrier();
    for (var x = 0u; x < ${across}u; x++) {
$results
    }
    workgroupBarrier();
  }
$finish
}
"""


def flash_wgsl(
    tile: Tile, size: int, value_size: int, width: int, names: dict[str, str], masked: bool
) -> str:
    """Return all of the shader behind its bindings.

    `width` is that of the bindings' elements; `names` says which binding has q, k and v, and `y`'s element.
    """
    depth, columns = -(-size // 4), -(-value_size // 4)
    vectors = -(-columns // tile.across)
    query_length, key_length, probability_length = tile.lengths(size, value_size)
    code = "".join(
        fill(LOADS[width], name=name, array=names[name], size=value_size if name == "v" else size)
        for name in "qkv"
    )
    code += fill(STORES[width], element=names["element"], size=value_size)
    return code + fill(
        SHADER,
        stored=tile.stored,
        query_length=query_length,
        key_length=key_length,
        probability_length=probability_length,
        parts_length=tile.queries * tile.across,
        invocations=tile.invocations,
        across=tile.across,
        rows=tile.rows,
        queries=tile.queries,
        keys=tile.keys,
        depth=depth,
        columns=columns,
        query_vectors=tile.queries * depth,
        key_vectors=tile.keys * depth,
        value_vectors=tile.keys * columns,
        query_pitch=tile.queries + 1,
        key_pitch=tile.keys + 1,
        value_pitch=tile.across * vectors,
        declare=_lines(1, _declare(tile, vectors)),
        zero_scores=_lines(2, (f"var s{i}_{j} = 0.0;" for i, j in _scores(tile))),
        scores=_lines(3, _score_products(tile)),
        scale=_lines(2, _scale(tile, masked)),
        softmax=_lines(2, _softmax(tile, vectors)),
        results=_lines(3, _result_products(tile, vectors)),
        finish=_lines(1, _finish(tile, vectors, columns)),
    )


def _lines(depth: int, lines: Iterator[str]) -> str:
    return "\n".join("  " * depth + line for line in lines)


def _scores(tile: Tile) -> Iterator[tuple[int, int]]:
    yield from ((i, j) for i in range(tile.rows) for j in range(KEYS_EACH))


def _declare(tile: Tile, vectors: int) -> Iterator[str]:
    for i in range(tile.rows):
        yield f"var maximum{i} = {LOWEST};"
        yield f"var sum{i} = 0.0;"
        yield from (f"var o{i}_{c} = vec4<f32>(0.0);" for c in range(vectors))


def _score_products(tile: Tile) -> Iterator[str]:
    for j in range(KEYS_EACH):
        yield f"let k{j} = vec4<f32>(key_tile[d * {tile.keys + 1}u + tx + {j * tile.across}u]);"
    for i in range(tile.rows):
        yield f"let q{i} = vec4<f32>(query_tile[d * {tile.queries + 1}u + row0 + {i}u]);"
    for axis in "xyzw":
        yield from (f"s{i}_{j} = fma(q{i}.{axis}, k{j}.{axis}, s{i}_{j});" for i, j in _scores(tile))


def _scale(tile: Tile, masked: bool) -> Iterator[str]:
    """Scores become exponents of two; keys past the last are lower than whatever a mask makes of others."""
    for i, j in _scores(tile):
        yield f"s{i}_{j} *= p.scale;"
        if masked:
            mask = f"mask[min(first + row0 + {i}u, p.queries - 1u) * p.keys + min(key{j}, p.keys - 1u)]"
            yield f"s{i}_{j} = max(s{i}_{j} + 1.4426950408889634 * {mask}, -1e38);".replace(
                f"key{j}", f"start + tx + {j * tile.across}u"
            )
    for j in range(KEYS_EACH):
        low = " ".join(f"s{i}_{j} = {LOWEST};" for i in range(tile.rows))
        yield f"if (start + tx + {j * tile.across}u >= p.keys) {{ {low} }}"
    for i in range(tile.rows):
        highest = f"max(max(s{i}_0, s{i}_1), max(s{i}_2, s{i}_3))"
        yield f"row_parts[(row0 + {i}u) * {tile.across}u + tx] = {highest};"


def _softmax(tile: Tile, vectors: int) -> Iterator[str]:
    """Milakov & Gimelshein, arXiv 1805.02867: what was summed so far shrinks as the maximum grows."""
    for i in range(tile.rows):
        yield f"var new{i} = maximum{i};"
    parts = " ".join(
        f"new{i} = max(new{i}, row_parts[(row0 + {i}u) * {tile.across}u + x]);" for i in range(tile.rows)
    )
    yield f"for (var x = 0u; x < {tile.across}u; x++) {{ {parts} }}"
    for i in range(tile.rows):
        scores = ", ".join(f"s{i}_{j}" for j in range(KEYS_EACH))
        yield f"let shrink{i} = exp2(maximum{i} - new{i});"
        yield f"let e{i} = exp2(vec4<f32>({scores}) - new{i});"
        yield f"maximum{i} = new{i};"
        yield f"sum{i} = sum{i} * shrink{i} + (e{i}.x + e{i}.y) + (e{i}.z + e{i}.w);"
        yield from (f"o{i}_{c} *= shrink{i};" for c in range(vectors))
        yield f"probabilities[(row0 + {i}u) * {tile.across + 1}u + tx] = T(e{i});"


def _result_products(tile: Tile, vectors: int) -> Iterator[str]:
    """Vector x of the probabilities belongs to the keys x, x + across, x + 2*across and x + 3*across."""
    pitch = tile.across * vectors
    for i in range(tile.rows):
        yield f"let e{i} = vec4<f32>(probabilities[(row0 + {i}u) * {tile.across + 1}u + x]);"
    for j, axis in enumerate("xyzw"):
        for c in range(vectors):
            at = f"(x + {j * tile.across}u) * {pitch}u + tx + {c * tile.across}u"
            yield f"let v{j}_{c} = vec4<f32>(key_tile[{at}]);"
            for i in range(tile.rows):
                yield f"o{i}_{c} = fma(vec4<f32>(e{i}.{axis}), v{j}_{c}, o{i}_{c});"


def _finish(tile: Tile, vectors: int, columns: int) -> Iterator[str]:
    for i in range(tile.rows):
        yield f"row_parts[(row0 + {i}u) * {tile.across}u + tx] = sum{i};"
        yield f"var total{i} = 0.0;"
    yield "workgroupBarrier();"
    parts = " ".join(f"total{i} += row_parts[(row0 + {i}u) * {tile.across}u + x];" for i in range(tile.rows))
    yield f"for (var x = 0u; x < {tile.across}u; x++) {{ {parts} }}"
    yield "let y_base = p.y_offset + group.z * p.y_batch + group.y * p.y_head;"
    for i in range(tile.rows):
        yield f"if (first + row0 + {i}u < p.queries) {{"
        yield f"  let to_row = y_base + (first + row0 + {i}u) * p.y_row;"
        for c in range(vectors):
            column = f"tx + {c * tile.across}u"
            guard = f"if ({column} < {columns}u) " if columns % tile.across else ""
            yield f"  {guard}{{ store(to_row, {column}, o{i}_{c} / total{i}); }}"
        yield "}"
