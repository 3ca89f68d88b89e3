"""WGSL that copies rows of queries, keys and values to workgroup memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

AT_ONCE = 8
"""The most vectors that an invocation holds on their way to workgroup memory."""


@dataclass(frozen=True)
class RowCopy:
    """How the invocations copy `rows` x `vectors` vectors of q, k or v to workgroup memory.

    Neighbouring invocations have `block` neighbouring rows, then the next vectors of them. `row` is the WGSL
    of the row number `$r` in the value; `place` that of vector `$c` of row `$r` in workgroup memory.
    `factor` multiplies each number on the way.
    """

    name: str
    invocations: int
    rows: int
    vectors: int
    block: int
    row: str
    place: str
    factor: str = ""

    @property
    def each(self) -> int:
        """The vectors that an invocation copies."""
        return -(-self.rows * self.vectors // self.invocations)

    def load(self, prefix: str, declare: str) -> Iterator[str]:
        """Yield lines that read an invocation's vectors into variables."""
        for n in range(self.each):
            at = f"min(t + {n * self.invocations}u, {self.rows * self.vectors - 1}u)"
            yield f"{declare}{prefix}{n} = {self._loaded(at)};"

    def store(self, prefix: str) -> Iterator[str]:
        """Yield lines that write the variables to workgroup memory."""
        total = self.rows * self.vectors
        for n in range(self.each):
            at = f"(t + {n * self.invocations}u)"
            guard = f"if ({at} < {total}u) " if (n + 1) * self.invocations > total else ""
            yield f"{guard}{{ {self._filled(self.place, at)} = {self._stored(f'{prefix}{n}')}; }}"

    def at_once(self) -> Iterator[str]:
        """Yield lines that read and write, one vector after another where there are many."""
        if self.each <= AT_ONCE:
            yield from self.load(f"{self.name}_read", "let ")
            yield from self.store(f"{self.name}_read")
            return
        yield f"for (var i = t; i < {self.rows * self.vectors}u; i += {self.invocations}u) {{"
        yield f"  {self._filled(self.place, 'i')} = {self._stored(self._loaded('i'))};"
        yield "}"

    def _stored(self, vector: str) -> str:
        return f"T(vec4<f32>({vector}) * {self.factor})" if self.factor else f"T({vector})"

    def _loaded(self, at: str) -> str:
        row, vector = self._filled(self.row, at), self._filled("$c", at)
        return f"load_{self.name}({self.name}_base + {row} * p.{self.name}_row, {vector})"

    def _filled(self, template: str, at: str) -> str:
        """Return a template with the row and the vector that number `at` stands for."""
        row = f"({at} / {self.block * self.vectors}u * {self.block}u + {at} % {self.block}u)"
        vector = f"({at} / {self.block}u % {self.vectors}u)"
        return template.replace("$r", row).replace("$c", vector)


@dataclass(frozen=True)
class TransposedCopy:
    """How the invocations copy `rows` x `vectors` vectors of keys so that four rows' numbers are a vector.

    An invocation reads vector `$c` of four neighbouring rows, the block `$b` of all, and writes number `$j`
    of each as one vector. Neighbouring invocations have `block` neighbouring blocks. Otherwise as `RowCopy`;
    `rows` are a multiple of four.
    """

    name: str
    invocations: int
    rows: int
    vectors: int
    block: int
    row: str
    place: str

    @property
    def tasks(self) -> int:
        """The blocks of four rows times the vectors of a row."""
        return self.rows // 4 * self.vectors

    @property
    def each(self) -> int:
        """The vectors that an invocation copies."""
        return 4 * -(-self.tasks // self.invocations)

    def load(self, prefix: str, declare: str) -> Iterator[str]:
        """Yield lines that read an invocation's vectors into variables."""
        for n in range(self.each // 4):
            at = f"min(t + {n * self.invocations}u, {self.tasks - 1}u)"
            for j in range(4):
                yield f"{declare}{prefix}{4 * n + j} = {self._loaded(at, j)};"

    def store(self, prefix: str) -> Iterator[str]:
        """Yield lines that write the variables to workgroup memory."""
        for n in range(self.each // 4):
            at = f"(t + {n * self.invocations}u)"
            guard = f"if ({at} < {self.tasks}u) " if (n + 1) * self.invocations > self.tasks else ""
            names = [f"{prefix}{4 * n + j}" for j in range(4)]
            yield f"{guard}{{ {' '.join(self._written(at, names))} }}"

    def at_once(self) -> Iterator[str]:
        """Yield lines that read and write, one block after another where there are many."""
        if self.each <= AT_ONCE:
            yield from self.load(f"{self.name}_read", "let ")
            yield from self.store(f"{self.name}_read")
            return
        yield f"for (var i = t; i < {self.tasks}u; i += {self.invocations}u) {{"
        names = [f"{self.name}_read{j}" for j in range(4)]
        yield from (f"  let {name} = {self._loaded('i', j)};" for j, name in enumerate(names))
        yield from (f"  {line}" for line in self._written("i", names))
        yield "}"

    def _written(self, at: str, names: list[str]) -> Iterator[str]:
        block, vector = self._at(at)
        place = self.place.replace("$b", block).replace("$c", vector)
        for j, axis in enumerate("xyzw"):
            numbers = ", ".join(f"{name}.{axis}" for name in names)
            yield f"{place.replace('$j', str(j))} = T(vec4({numbers}));"

    def _loaded(self, at: str, j: int) -> str:
        block, vector = self._at(at)
        row = self.row.replace("$r", f"4u * {block} + {j}u")
        return f"load_{self.name}({self.name}_base + {row} * p.{self.name}_row, {vector})"

    def _at(self, at: str) -> tuple[str, str]:
        """Return the block of rows and the vector that number `at` stands for."""
        block = f"({at} / {self.block * self.vectors}u * {self.block}u + {at} % {self.block}u)"
        return block, f"({at} / {self.block}u % {self.vectors}u)"


def block_of(rows: int) -> int:
    """Return how many rows invocations side by side copy: eight vectors use all banks of workgroup memory."""
    return next(n for n in (8, 4, 2, 1) if rows % n == 0)
