"""Short sums of pairs: two rows times two columns, then times these turned round.

A compiler may split what multiplies a vector of f16 by one number into two multiplications, and keep together
what multiplies two vectors: on an H200 by Dawn the one reaches 58 TFLOPS, the other 96
(scripts/lab/measure_threads.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msd.gpu.gpu import Element

PAIR = "alias Pair = vec2<{stored}>;\nfn turned(pair: Pair) -> Pair {{ {body} }}\n"
BODIES: dict[Element, str] = {
    "f32": "return pair.yx;",
    "f16": "let word = bitcast<u32>(pair); return bitcast<Pair>((word << 16u) | (word >> 16u));",
}
"""The compiler splits a swizzle of f16 too."""

HALVES = ("xy", "zw")


def pair_functions(stored: Element) -> str:
    """Return the declarations that the other functions' WGSL needs, of operands in workgroup memory."""
    return PAIR.format(stored=stored, body=BODIES[stored])


def zero_pairs(rows: int, vectors: int) -> Iterator[str]:
    """Yield WGSL that declares the short sums of `rows` and of `vectors` of four columns."""
    for i in range(rows // 2):
        for j in range(2 * vectors):
            yield f"var h{i}_{j} = Pair();"
            yield f"var t{i}_{j} = Pair();"


def multiply_pairs(left: Iterable[str], right: Iterable[str]) -> Iterator[str]:
    """Yield WGSL that adds products to the sums: of `left`, vectors of four rows, and `right`, of columns."""
    pairs = [f"{vector}.{half}" for vector in left for half in HALVES]
    for j, pair in enumerate(f"{vector}.{half}" for vector in right for half in HALVES):
        yield f"let pair{j} = {pair};"
        yield f"let turned{j} = turned(pair{j});"
        for i, rows in enumerate(pairs):
            yield f"h{i}_{j} = fma({rows}, pair{j}, h{i}_{j});"
            yield f"t{i}_{j} = fma({rows}, turned{j}, t{i}_{j});"


def add_pairs(rows: int, vectors: int) -> Iterator[str]:
    """Yield WGSL that adds the short sums to the long ones, vectors s{row}_{vector} of f32."""
    for row in range(rows):
        names = ("h", "t") if row % 2 == 0 else ("t", "h")
        for vector in range(vectors):
            places = [(name, 2 * vector + half) for half in range(2) for name in names]
            parts = ", ".join(f"f32({name}{row // 2}_{j}.{'xy'[row % 2]})" for name, j in places)
            yield f"s{row}_{vector} += vec4<f32>({parts});"
