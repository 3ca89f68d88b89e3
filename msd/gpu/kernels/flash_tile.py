"""How a workgroup of FlashAttention shares its work and its memory."""

from __future__ import annotations

from dataclasses import dataclass

from msd.gpu.gpu import BYTES, Element

KEYS_EACH = 4
"""The keys of an invocation: their probabilities are a vector."""


@dataclass(frozen=True)
class FlashTile:
    """How a workgroup of `across` x `down` invocations computes `down*rows` queries, `4*across` keys a time.

    Of the scores an invocation computes `rows` (1, 2, 4 or 8) x 4, of the result `rows` rows of every
    `across`-th vector of four. Queries, keys, values and probabilities are in workgroup memory as `stored`.
    With `ahead`, invocations read values while they compute scores, and the next keys while they sum results.
    With `short_sums`, up to 20 neighbouring products are summed as `stored` before they join the f32 sum;
    queries and probabilities are smaller then, so that these sums stay in range. `pieces` workgroups share
    the keys of a query.
    """

    across: int
    down: int
    rows: int
    stored: Element
    ahead: bool = True
    short_sums: bool = False
    pieces: int = 1

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

    def length(self, size: int, value_size: int) -> int:
        """Return how many blocks of 4 x `across` vectors the tiles of keys and of values need."""
        return max(-(-size // 4), self.across * self.vectors(value_size))

    def bytes(self, size: int, value_size: int) -> int:
        """Return the bytes of workgroup memory."""
        vectors = -(-size // 4) * self.queries + self.length(size, value_size) * self.keys
        vectors += self.queries * (self.across + 1)
        parts = self.part_vectors * self.down * (self.across + 1) * min(self.rows, 4)
        return vectors * 4 * BYTES[self.stored] + 4 * parts

    @property
    def part_vectors(self) -> int:
        """The vectors that an invocation writes for its rows, one number each."""
        return -(-self.rows // 4)
