"""WGSL that copies rows of queries, keys and values to workgroup memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msd.gpu.operations import Attention

AT_ONCE = 8
"""The most vectors that an invocation holds on their way to workgroup memory."""


@dataclass(frozen=True)
class RowCopy:
    """How the invocations copy `rows` x `vectors` vectors of q, k or v to workgroup memory.

    A piece is a vector of a row, or, with `transposed`, one of four neighbouring rows each, written so that
    the rows' numbers are vectors; `rows` are a multiple of four then. Neighbouring invocations have pieces of
    `block` neighbouring rows, or fours of them, then the next vectors of these. `row` is the WGSL of the row
    number `$r` in the value. `place` is that of vector `$c` of row `$r` in workgroup memory, or of number
    `$j` of the vectors `$c` of the four rows `$r`. `factor` multiplies each number on the way.
    """

    name: str
    invocations: int
    rows: int
    vectors: int
    block: int
    row: str
    place: str
    factor: str = ""
    transposed: bool = False

    @property
    def each(self) -> int:
        """The vectors that an invocation copies."""
        return self._lines * -(-self._pieces // self.invocations)

    def load(self, prefix: str, declare: str) -> Iterator[str]:
        """Yield lines that read an invocation's vectors into variables."""
        for n in range(self.each // self._lines):
            at = f"min(t + {n * self.invocations}u, {self._pieces - 1}u)"
            for name, loaded in zip(self._names(prefix, n), self._loaded(at), strict=True):
                yield f"{declare}{name} = {loaded};"

    def store(self, prefix: str) -> Iterator[str]:
        """Yield lines that write the variables to workgroup memory."""
        for n in range(self.each // self._lines):
            at = f"(t + {n * self.invocations}u)"
            guard = f"if ({at} < {self._pieces}u) " if (n + 1) * self.invocations > self._pieces else ""
            yield f"{guard}{{ {' '.join(self._written(at, self._names(prefix, n)))} }}"

    def at_once(self) -> Iterator[str]:
        """Yield lines that read and write, one piece after another where there are many."""
        if self.each <= AT_ONCE:
            yield from self.load(f"{self.name}_read", "let ")
            yield from self.store(f"{self.name}_read")
            return
        names = self._names(f"{self.name}_read", 0)
        yield f"for (var i = t; i < {self._pieces}u; i += {self.invocations}u) {{"
        yield from (f"  let {one} = {loaded};" for one, loaded in zip(names, self._loaded("i"), strict=True))
        yield from (f"  {line}" for line in self._written("i", names))
        yield "}"

    @property
    def _lines(self) -> int:
        return 4 if self.transposed else 1

    @property
    def _pieces(self) -> int:
        return self.rows // self._lines * self.vectors

    def _names(self, prefix: str, piece: int) -> list[str]:
        return [f"{prefix}{self._lines * piece + j}" for j in range(self._lines)]

    def _written(self, at: str, names: list[str]) -> list[str]:
        place = self._filled(self.place, at)
        if not self.transposed:
            return [f"{place} = {self._stored(name)};" for name in names]
        columns = (", ".join(f"{name}.{axis}" for name in names) for axis in "xyzw")
        return [
            f"{place.replace('$j', str(j))} = {self._stored(f'vec4({column})')};"
            for j, column in enumerate(columns)
        ]

    def _stored(self, vector: str) -> str:
        return f"T(vec4<f32>({vector}) * {self.factor})" if self.factor else f"T({vector})"

    def _loaded(self, at: str) -> list[str]:
        number, vector = self._filled("$r", at), self._filled("$c", at)
        numbers = [f"4u * {number} + {j}u" for j in range(4)] if self.transposed else [number]
        rows = [self.row.replace("$r", each) for each in numbers]
        return [f"load_{self.name}({self.name}_base + {row} * p.{self.name}_row, {vector})" for row in rows]

    def _filled(self, template: str, at: str) -> str:
        """Return a template with the row, or the four, and the vector that piece `at` stands for."""
        row = f"({at} / {self.block * self.vectors}u * {self.block}u + {at} % {self.block}u)"
        vector = f"({at} / {self.block}u % {self.vectors}u)"
        return template.replace("$r", row).replace("$c", vector)


def block_of(rows: int) -> int:
    """Return how many rows invocations side by side copy: eight vectors use all banks of workgroup memory."""
    return next(n for n in (8, 4, 2, 1) if rows % n == 0)


def row_width(op: Attention) -> int:
    """Return 4 where all rows are whole vectors at places that four divides, else 1."""
    numbers = [op.size, op.value_size]
    for heads in (op.q, op.k, op.v, op.y):
        numbers += [heads.offset, heads.batch, heads.head, heads.row]
    return 4 if all(number % 4 == 0 for number in numbers) else 1
