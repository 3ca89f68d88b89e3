"""How a workgroup of FlashAttention shares its work and its memory where matrix units multiply."""

from __future__ import annotations

from dataclasses import dataclass

from msd.gpu.gpu import BYTES, Element, MatrixUnit
from msd.gpu.kernels.matrix_tile import PAD

SCORE_PAD = 4
"""The f32 after each row of scores, or after a key's: what threads do side by side is then in other banks."""


@dataclass(frozen=True)
class FlashMatrixTile:
    """`queries` of a workgroup, `keys` a step; a subgroup has `rows` queries and 1/`across` of the columns.

    The columns are keys while scores are computed and values' after that. Keys and values of `buffers`
    steps, 1 or 2, are in workgroup memory, as `stored`; scores are f32 and shares of the softmax as `stored`.
    `pieces` workgroups share the keys of a query.
    """

    queries: int
    keys: int
    rows: int
    unit: MatrixUnit
    across: int = 1
    buffers: int = 2
    stored: Element = "f16"
    pieces: int = 1

    @property
    def subgroups(self) -> int:
        """The subgroups of a workgroup."""
        return self.queries // self.rows * self.across

    @property
    def threads(self) -> int:
        """The threads of a workgroup."""
        return self.subgroups * self.unit.subgroup

    @property
    def threads_each(self) -> int:
        """The threads that share a row of scores."""
        return self.threads // self.queries

    @property
    def whole(self) -> bool:
        """Whether matrices fill its rows, keys and parts, and threads have whole vectors of a row."""
        unit, each = self.unit, self.across * self.unit.subgroup
        return (
            self.rows % unit.rows == self.queries % self.rows == each % self.rows == 0
            and self.keys % unit.depth == self.keys % (self.across * unit.columns) == 0
            and self.keys % (4 * each // self.rows) == 0
        )

    @property
    def piece(self) -> int:
        """The columns of a subgroup's scores, and of as much of its result as the scores' memory holds."""
        return self.keys // self.across

    @property
    def by_keys(self) -> bool:
        """Whether scores lie key by key, so that threads side by side read them side by side."""
        return self.threads_each == 1

    @property
    def score_row(self) -> int:
        """The elements from one row of scores to the next, or from one key to the next."""
        return (self.queries if self.by_keys else self.keys) + SCORE_PAD

    @property
    def scores(self) -> int:
        """The elements of all scores."""
        return (self.keys if self.by_keys else self.queries) * self.score_row

    @property
    def share_row(self) -> int:
        """The elements from one row of shares to the next."""
        return self.keys + PAD

    def depth(self, size: int) -> int:
        """Return the numbers of a query or key, with those that fill the last matrix."""
        return -(-size // self.unit.depth) * self.unit.depth

    def columns(self, value_size: int) -> int:
        """Return the numbers of a value of which a subgroup has a part, with those that fill its matrices."""
        each = self.unit.columns * self.across
        return -(-value_size // each) * self.unit.columns

    def key_row(self, size: int) -> int:
        """Return the elements from one key to the next."""
        return self.depth(size) + PAD

    def value_row(self, value_size: int) -> int:
        """Return the elements from one value to the next."""
        return self.columns(value_size) * self.across + PAD

    def bytes(self, size: int, value_size: int) -> int:
        """Return the bytes of workgroup memory."""
        staged = self.buffers * self.keys * (self.key_row(size) + self.value_row(value_size))
        halves = staged + self.queries * self.share_row
        return halves * BYTES[self.stored] + self.scores * BYTES["f32"] + 16

    def __str__(self) -> str:
        unit = self.unit
        block = f"{self.rows} rows" + f" and 1/{self.across}" * (self.across > 1)
        return (
            f"{self.queries} x {self.keys} by {block} of {unit.rows}x{unit.columns}x{unit.depth}"
            + ", one buffer" * (self.buffers == 1)
            + f", keys in {self.pieces}" * (self.pieces > 1)
        )
