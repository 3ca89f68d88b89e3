"""The result of `msd blocks`, and its JSON form."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

from msd.files import schema

FORMAT = 1


@dataclass(frozen=True)
class BlockError:
    """A block of a compressed network beside the reference's, whose weights take `reference_bytes`.

    `snr_db` and `max_error` are of its results alone, on the reference's inputs; `final_snr_db` is of the
    network's results when this block alone is compressed, and `final_share` its part of the sum of all such
    errors, from 0 to 1. A ratio is None where there is no error at all, and all finals where they were not
    asked for. `stored` are the kinds of the block's large weights, such as "int8 gptq", where the manifest
    says them.
    """

    name: str
    operations: int
    reference_bytes: int
    bytes: int
    snr_db: float | None
    max_error: float
    final_snr_db: float | None = None
    final_share: float | None = None
    stored: tuple[str, ...] = field(default=(), metadata=schema.UNLESS_EMPTY)


@dataclass(frozen=True)
class ComponentErrors:
    """All blocks of a network in order of execution, over `runs` inputs.

    `final_snr_db` is that of the whole compressed network's results, None where it was not measured.
    """

    runs: int
    blocks: tuple[BlockError, ...]
    final_snr_db: float | None = None

    @property
    def worst_first(self) -> list[BlockError]:
        """The blocks in order of their SNR, the lowest first."""
        return sorted(self.blocks, key=lambda block: finite(block.snr_db))

    @property
    def median_db(self) -> float:
        """The median of all blocks' SNR in dB, infinite where most have no error at all."""
        return statistics.median(finite(block.snr_db) for block in self.blocks)


@dataclass(frozen=True)
class BlockReport:
    """A comparison of two bundles: their names, model hashes and calibration.

    `command`: the command line.
    """

    command: str
    reference: str
    reference_hash: str
    compressed: str
    compressed_hash: str
    calibration: str
    components: dict[str, ComponentErrors]
    format: int = FORMAT


def finite(ratio: float | None) -> float:
    """Return a stored ratio in dB as a number: infinite where there is no error."""
    return math.inf if ratio is None else ratio
