"""The WGSL of FlashAttention by matrix units.

WGSL cannot read the numbers of a subgroup's matrix, so scores go through workgroup memory, where threads read
rows of them and write shares of the softmax, which become matrices again. The result stays in matrices: it
must shrink only where a row's scores exceed what its shares are relative to by ROOM, which is rare behind
the first keys, and then goes through workgroup memory too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msd.gpu.kernels.flash_matrix_tile import FlashMatrixTile
from msd.gpu.kernels.flash_shader import LOADS, LOG2_E, LOWEST, PART, STORES, piece_lines
from msd.gpu.wgsl import fill

ROOM, ABOVE = 12.0, 4.0
"""Shares are powers of two of scores less a reference of the row, a score that was its largest less ABOVE.
A larger score moves the reference where the share would exceed 2^ROOM, which f16 still holds."""

SHADER = """
alias T = vec4<$stored>;
var<workgroup> key_tile: array<$stored, $key_tile>;
var<workgroup> value_tile: array<$stored, $value_tile>;
var<workgroup> scores: array<f32, $score_tile>;
var<workgroup> shares: array<$stored, $share_tile>;
// The first is the last step in which a reference moved; four, as matrices begin at multiples of 16 bytes.
var<workgroup> moved: array<atomic<u32>, 4>;

@compute @workgroup_size($threads)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(subgroup_id) subgroup: u32,
        @builtin(subgroup_invocation_id) lane: u32) {
  let thread = subgroup * ${lanes}u + lane;
  let first = group.x * ${queries}u;
$piece
  let q_base = p.q_offset + batch * p.q_batch + group.y * p.q_head;
  let k_base = p.k_offset + batch * p.k_batch + group.y * p.k_head;
  let v_base = p.v_offset + batch * p.v_batch + group.y * p.v_head;
  let block_row = subgroup / ${across}u * ${rows}u;
  let part = subgroup % ${across}u;
  let row = thread / ${each}u;
  let of_row = thread % ${each}u;
  let score_at = $score_at;
  // Not every driver begins each workgroup with zeros.
  if (thread == 0u) { atomicStore(&moved[0], 0u); }
$queries_in
$declare
  var reference = $lowest;
  var sum = 0.0;
  var step = 0u;
$first_in
  for (var start = first_key; start < last_key; start += ${keys}u) {
    step += 1u;
$begin
$products
    workgroupBarrier();
$softmax
$between
    if (workgroupUniformLoad(&moved[0]) == step) {
$shrink_result
    }
$results
  }
$finish
}
"""


def flash_matrix_wgsl(
    tile: FlashMatrixTile, size: int, value_size: int, width: int, elements: tuple[str, str], masked: bool
) -> str:
    """Return all of the shader behind its bindings q, k, v, y and mask, whose elements are `width` wide.

    `elements`: the types of q, k and v, and of y.
    """
    gaps = {"element": elements[0], "y_element": elements[1]}
    code = "".join(
        fill(LOADS[width], name=name, array=name, size=value_size if name == "v" else size, **gaps)
        for name in "qkv"
    )
    code += PART if tile.pieces > 1 else fill(STORES[width], size=value_size, **gaps)
    copies = _copies(tile, size, value_size)
    return code + fill(
        SHADER,
        stored=tile.stored,
        key_tile=tile.buffers * tile.keys * tile.key_row(size),
        value_tile=tile.buffers * tile.keys * tile.value_row(value_size),
        score_tile=tile.scores,
        share_tile=tile.queries * tile.share_row,
        threads=tile.threads,
        lanes=tile.unit.subgroup,
        queries=tile.queries,
        across=tile.across,
        rows=tile.rows,
        each=tile.threads_each,
        score_at=_first_own(tile),
        keys=tile.keys,
        lowest=LOWEST,
        piece=_lines(1, piece_lines(tile.pieces)),
        queries_in=_lines(1, _queries(tile, size)),
        declare=_lines(1, _declare(tile, value_size)),
        products=_lines(2, _products(tile, size)),
        softmax=_lines(2, _softmax(tile, masked)),
        shrink_result=_lines(3, _shrink_result(tile, value_size)),
        results=_lines(2, _results(tile, value_size)),
        finish=_lines(1, _finish(tile, value_size)),
        **{name: _lines(1 if name == "first_in" else 2, lines) for name, lines in copies.items()},
    )


def _lines(depth: int, lines: Iterable[str]) -> str:
    return "\n".join("  " * depth + line for line in lines)


def _blocks(tile: FlashMatrixTile) -> range:
    """Return the numbers of the matrices of a subgroup's rows."""
    return range(tile.rows // tile.unit.rows)


def _score_at(tile: FlashMatrixTile, row: int, column: str) -> tuple[str, str]:
    """Return where a matrix of a subgroup's scores begins, and how it lies there: whether by columns, and the
    elements from one to the next."""
    down, pitch = f"(block_row + {row}u)", f"{tile.score_row}u"
    if tile.by_keys:
        return f"({column}) * {pitch} + {down}", f"true, {pitch}"
    return f"{down} * {pitch} + {column}", f"false, {pitch}"


def _first_own(tile: FlashMatrixTile) -> str:
    """Return the WGSL of where a thread's scores begin."""
    own = tile.keys // tile.threads_each
    return "row" if tile.by_keys else f"row * {tile.score_row}u + of_row * {own}u"


def _own(tile: FlashMatrixTile, n: int) -> str:
    """Return the WGSL of score `n` of a thread's."""
    return f"scores[score_at + {n * tile.score_row if tile.by_keys else n}u]"


def _result_places(tile: FlashMatrixTile, value_size: int) -> list[tuple[int, int]]:
    across = range(tile.columns(value_size) // tile.unit.columns)
    return [(i, j) for i in _blocks(tile) for j in across]


def _copies(tile: FlashMatrixTile, size: int, value_size: int) -> dict[str, list[str]]:
    """Return the gaps that bring keys and values to workgroup memory, by a step ahead of their use."""
    loads = {"k": (tile.depth(size), size, tile.key_row(size)), "v": (0, value_size, 0)}
    loads["v"] = (tile.columns(value_size) * tile.across, value_size, tile.value_row(value_size))
    fetch, store = list[str](), list[str]()
    for name, (padded, numbers, pitch) in loads.items():
        got, put = _copy(tile, name, padded, numbers, pitch)
        fetch += got
        store += put
    declare = [line.replace("next_", "var next_", 1) for line in fetch]
    first = [line.replace("start_key", "first_key") for line in declare]
    ahead = [line.replace("start_key", f"start + {tile.keys}u") for line in fetch]
    if tile.buffers == 1:
        begin = ["workgroupBarrier();", *_buffered(store, "0u"), "workgroupBarrier();", *ahead]
        return {"first_in": first, "begin": ["let buffer = 0u;", *begin], "between": []}
    first += [*_buffered(store, "0u"), "workgroupBarrier();"]
    return {
        "first_in": first,
        "begin": ["let buffer = (step + 1u) % 2u;", *ahead],
        "between": _buffered(store, "(step % 2u)"),
    }


def _buffered(lines: Iterable[str], number: str) -> list[str]:
    return [line.replace("$buffer", number) for line in lines]


def _copy(
    tile: FlashMatrixTile, name: str, padded: int, numbers: int, pitch: int
) -> tuple[list[str], list[str]]:
    """Return the lines that read an invocation's vectors of keys or values, and those that store them."""
    vectors, threads = padded // 4, tile.threads
    count = tile.keys * vectors
    array = {"k": "key_tile", "v": "value_tile"}[name]
    fetch, store = [], []
    for n in range(-(-count // threads)):
        at = f"(thread + {n * threads}u)"
        key, vector = f"min(start_key + {at} / {vectors}u, p.keys - 1u)", f"{at} % {vectors}u"
        read = f"load_{name}({name}_base + {key} * p.{name}_row, {vector})"
        if vectors > -(-numbers // 4):
            last = -(-numbers // 4) - 1
            read = read.replace(f", {vector})", f", min({vector}, {last}u))")
            read = f"select(T(), T({read}), {vector} <= {last}u)"
        fetch.append(f"next_{name}{n} = T({read});")
        to = f"$buffer * {tile.keys * pitch}u + {at} / {vectors}u * {pitch}u + {vector} * 4u"
        guard = f"if ({at} < {count}u) " if (n + 1) * threads > count else ""
        stores = " ".join(f"{array}[to + {z}u] = next_{name}{n}.{axis};" for z, axis in enumerate("xyzw"))
        store.append(f"{guard}{{ let to = {to}; {stores} }}")
    return fetch, store


def _queries(tile: FlashMatrixTile, size: int) -> Iterator[str]:
    """The queries become matrices by way of the shares' memory, as many columns at once as it has."""
    unit, depth = tile.unit, tile.depth(size)
    kind = f"subgroup_matrix_left<{tile.stored}, {unit.depth}, {unit.rows}>"
    vectors, last = tile.keys // 4, -(-size // 4) - 1
    for begin in range(0, depth, tile.keys):
        end = min(begin + tile.keys, depth)
        yield f"for (var i = thread; i < {tile.queries * vectors}u; i += {tile.threads}u) {{"
        yield f"  let line = i / {vectors}u;"
        yield f"  let vector = i % {vectors}u + {begin // 4}u;"
        yield "  let from_row = q_base + min(first + line, p.queries - 1u) * p.q_row;"
        yield f"  let four = T(load_q(from_row, min(vector, {last}u)));"
        yield f"  let kept = select(T(), four, vector <= {last}u);"
        yield f"  let to = line * {tile.share_row}u + i % {vectors}u * 4u;"
        yield "  " + " ".join(f"shares[to + {z}u] = kept.{axis};" for z, axis in enumerate("xyzw"))
        yield "}"
        yield "workgroupBarrier();"
        for k in range(begin, end, unit.depth):
            for i in _blocks(tile):
                at = f"(block_row + {i * unit.rows}u) * {tile.share_row}u + {k - begin}u"
                load = f"subgroupMatrixLoad<{kind}>(&shares, {at}, false, {tile.share_row}u)"
                yield f"let q{i}_{k // unit.depth} = {load};"
        yield "workgroupBarrier();"


def _declare(tile: FlashMatrixTile, value_size: int) -> Iterator[str]:
    kind = f"subgroup_matrix_result<f32, {tile.unit.columns}, {tile.unit.rows}>"
    yield from (f"var o{i}_{j} = {kind}();" for i, j in _result_places(tile, value_size))


def _products(tile: FlashMatrixTile, size: int) -> Iterator[str]:
    """Scores: a row of matrices of a subgroup's queries times its part of the keys."""
    unit, pitch = tile.unit, tile.key_row(size)
    right = f"subgroup_matrix_right<{tile.stored}, {unit.columns}, {unit.depth}>"
    result = f"subgroup_matrix_result<f32, {unit.columns}, {unit.rows}>"
    base = f"buffer * {tile.keys * pitch}u + part * {tile.piece * pitch}u"
    for j in range(tile.piece // unit.columns):
        yield "{"
        yield from (f"var s{i} = {result}();" for i in _blocks(tile))
        for k in range(tile.depth(size) // unit.depth):
            at = f"{base} + {j * unit.columns * pitch + k * unit.depth}u"
            yield f"let k{k} = subgroupMatrixLoad<{right}>(&key_tile, {at}, true, {pitch}u);"
            for i in _blocks(tile):
                yield f"s{i} = subgroupMatrixMultiplyAccumulate(q{i}_{k}, k{k}, s{i});"
        for i in _blocks(tile):
            at, how = _score_at(tile, i * unit.rows, f"part * {tile.piece}u + {j * unit.columns}u")
            yield f"subgroupMatrixStore(&scores, {at}, s{i}, {how});"
        yield "}"


def _softmax(tile: FlashMatrixTile, masked: bool) -> Iterator[str]:
    """Milakov and Gimelshein, arXiv 1805.02867, with a reference that moves only where it must.

    Without a mask, scores are scaled as they become exponents.
    """
    own = tile.keys // tile.threads_each
    vectors = range(own // 4)
    yield f"let key = start + of_row * {own}u;"
    for n in vectors:
        parts = ", ".join(_own(tile, 4 * n + z) for z in range(4))
        yield f"var e{n} = vec4<f32>({parts}){' * p.scale' * masked};"
    if masked:
        yield "let mask_row = min(first + row, p.queries - 1u) * p.keys;"
    for n in vectors:
        for z, axis in enumerate("xyzw" if masked else ""):
            at = f"min(key + {4 * n + z}u, p.keys - 1u)"
            yield f"e{n}.{axis} = max(e{n}.{axis} + {LOG2_E} * mask[mask_row + {at}], -1e38);"
    yield f"if (start + {tile.keys}u > p.keys) {{"
    for n in vectors:
        places = ", ".join(f"{4 * n + z}u" for z in range(4))
        beyond = f"vec4<u32>({places}) + vec4<u32>(key) >= vec4<u32>(p.keys)"
        yield f"  e{n} = select(e{n}, vec4<f32>({LOWEST}), {beyond});"
    yield "}"
    yield "var most = e0;"
    yield from (f"most = max(most, e{n});" for n in vectors[1:])
    yield "var largest = max(max(most.x, most.y), max(most.z, most.w));"
    yield from _joined(tile, "largest", "max(largest, {})")
    yield from () if masked else ("largest *= p.scale;",)
    yield from _moving()
    yield f"let share_at = row * {tile.share_row}u + of_row * {own}u;"
    for n in vectors:
        less = f"e{n} - reference" if masked else f"fma(e{n}, vec4<f32>(p.scale), vec4<f32>(-reference))"
        yield f"e{n} = exp2({less});"
        yield f"total += e{n};"
        yield f"let share{n} = T(e{n});"
        for z, axis in enumerate("xyzw"):
            yield f"shares[share_at + {4 * n + z}u] = share{n}.{axis};"
    yield "sum += (total.x + total.y) + (total.z + total.w);"


def _moving() -> Iterator[str]:
    yield "var shrink = 1.0;"
    yield f"if (largest > reference + {ROOM}) {{"
    yield f"  let next = largest - {ABOVE};"
    yield "  shrink = exp2(reference - next);"
    yield "  reference = next;"
    yield "  sum *= shrink;"
    yield "  atomicMax(&moved[0], step);"
    yield "}"
    yield "var total = vec4<f32>(0.0);"


def _joined(tile: FlashMatrixTile, name: str, join: str) -> Iterator[str]:
    """Yield lines that join what the threads of a row have, which are neighbours in a subgroup."""
    distance = 1
    while distance < tile.threads_each:
        yield f"{name} = {join.format(f'subgroupShuffleXor({name}, {distance}u)')};"
        distance *= 2


def _results(tile: FlashMatrixTile, value_size: int) -> Iterator[str]:
    unit, pitch, columns = tile.unit, tile.value_row(value_size), tile.columns(value_size)
    left = f"subgroup_matrix_left<{tile.stored}, {unit.depth}, {unit.rows}>"
    right = f"subgroup_matrix_right<{tile.stored}, {unit.columns}, {unit.depth}>"
    for k in range(0, tile.keys, unit.depth):
        yield "{"
        for i in _blocks(tile):
            at = f"(block_row + {i * unit.rows}u) * {tile.share_row}u + {k}u"
            yield f"let e{i} = subgroupMatrixLoad<{left}>(&shares, {at}, false, {tile.share_row}u);"
        for j in range(columns // unit.columns):
            at = f"buffer * {tile.keys * pitch}u + part * {columns}u + {k * pitch + j * unit.columns}u"
            yield f"let v{j} = subgroupMatrixLoad<{right}>(&value_tile, {at}, false, {pitch}u);"
            for i in _blocks(tile):
                yield f"o{i}_{j} = subgroupMatrixMultiplyAccumulate(e{i}, v{j}, o{i}_{j});"
        yield "}"


def _pieces(tile: FlashMatrixTile, value_size: int) -> range:
    """Return where the pieces of a subgroup's result begin that the scores' memory holds at once."""
    return range(0, tile.columns(value_size), tile.piece)


def _staged(tile: FlashMatrixTile, value_size: int, begin: int) -> Iterator[tuple[str, str, str]]:
    """Yield the matrices of a piece of the result, and their places in the scores' memory, as `_score_at`."""
    for i, j in _result_places(tile, value_size):
        column = j * tile.unit.columns - begin
        if 0 <= column < tile.piece:
            yield f"o{i}_{j}", *_score_at(tile, i * tile.unit.rows, f"part * {tile.piece}u + {column}u")


def _shrink_result(tile: FlashMatrixTile, value_size: int) -> Iterator[str]:
    kind = f"subgroup_matrix_result<f32, {tile.unit.columns}, {tile.unit.rows}>"
    for begin in _pieces(tile, value_size):
        staged = list(_staged(tile, value_size, begin))
        for name, at, how in staged:
            yield f"subgroupMatrixStore(&scores, {at}, {name}, {how});"
        yield "workgroupBarrier();"
        for n in range(tile.keys // 4 // tile.threads_each):
            yield from (f"{_own(tile, 4 * n + z)} *= shrink;" for z in range(4))
        yield "workgroupBarrier();"
        for name, at, how in staged:
            yield f"{name} = subgroupMatrixLoad<{kind}>(&scores, {at}, {how});"
        yield "workgroupBarrier();"


def _finish(tile: FlashMatrixTile, value_size: int) -> Iterator[str]:
    """Each thread writes the vectors of its row that it has had of the scores."""
    yield from _joined(tile, "sum", "sum + {}")
    vectors = -(-value_size // 4)
    if tile.pieces > 1:
        yield "let kept_row = ((piece * p.batches + batch) * p.heads + group.y) * p.queries + first + row;"
        yield f"let to_row = kept_row * {vectors}u;"
        mine = "of_row == 0u && first + row < p.queries"
        yield f"if ({mine}) {{ statistics[kept_row] = vec2<f32>(reference, sum); }}"
    else:
        yield "let to_row = p.y_offset + batch * p.y_batch + group.y * p.y_head + (first + row) * p.y_row;"
    columns, own = tile.columns(value_size), tile.keys // tile.threads_each
    divided = "" if tile.pieces > 1 else " / sum"
    for begin in _pieces(tile, value_size):
        yield "workgroupBarrier();"
        for name, at, how in _staged(tile, value_size, begin):
            yield f"subgroupMatrixStore(&scores, {at}, {name}, {how});"
        yield "workgroupBarrier();"
        for n in range(own // 4):
            yield "{"
            yield f"  let at = of_row * {own}u + {4 * n}u;"
            yield f"  let within = at % {tile.piece}u + {begin}u;"
            yield f"  let column = at / {tile.piece}u * {columns}u + within;"
            inside = f"within < {columns}u && column < {value_size}u"
            yield f"  if (first + row < p.queries && {inside}) {{"
            parts = ", ".join(_own(tile, 4 * n + z) for z in range(4))
            yield f"    store(to_row, column / 4u, vec4<f32>({parts}){divided});"
            yield "  }"
            yield "}"
