"""Which tile, and how many workgroups that share its sums, a product gets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from msd.webgpu.gpu import Gpu
from msd.webgpu.kernels.tile import Tile

EFFICIENCY: dict[Tile, float] = {
    Tile(128, 128, 8, 8): 1.0,
    Tile(128, 64, 8, 8): 0.95,
    Tile(64, 128, 8, 8): 0.95,
    Tile(64, 64, 8, 8): 0.85,
    Tile(64, 64, 4, 8): 0.75,
    Tile(32, 64, 4, 8): 0.65,
    Tile(64, 64, 4, 4): 0.55,
    Tile(32, 32, 4, 4): 0.45,
}
"""How fast a thread multiplies in each tile when the GPU is full of them, relative to the first.

Guessed from the loads of workgroup memory for each multiplication; scripts/bench_kernels.py measures.
"""

SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
LEAST_STEPS = 4
"""The fewest steps along K that a part of a split sum has."""

DISPATCH = 1000.0
"""What a second dispatch costs, in multiplications of a thread: about 5 us."""

PARTIAL = 8e-4
"""What an element of a partial sum costs, written and read again, in multiplications of a thread."""


@dataclass(frozen=True)
class Choice:
    """A tile, and the workgroups that share its sums."""

    tile: Tile
    splits: int = 1


def choose_tile(
    rows: int, columns: int, depth: int, gpu: Gpu, batch: int = 1, gate: bool = False, split: bool = True
) -> Choice:
    """Return the choice with the least estimated time for `batch` products, rows x depth by depth x columns.

    A gate needs threads with eight columns; `split` allows split sums.
    """
    choices = list(_choices(depth, gpu, gate, split and batch == 1))
    return min(choices, key=lambda choice: _cost(choice, rows, columns, depth, gpu, batch))


def _choices(depth: int, gpu: Gpu, gate: bool, split: bool) -> Iterator[Choice]:
    for tile in EFFICIENCY:
        if tile.bytes > gpu.workgroup_bytes or tile.threads > gpu.invocations:
            continue
        if gate and tile.thread_columns != 8:
            continue
        for splits in SPLITS if split else SPLITS[:1]:
            if splits == 1 or depth >= splits * LEAST_STEPS * tile.depth:
                yield Choice(tile, splits)


def _cost(choice: Choice, rows: int, columns: int, depth: int, gpu: Gpu, batch: int) -> float:
    """Return the multiplications of a thread one after another.

    The GPU runs as many threads at once as `enough_workgroups` of 256 have; workgroups beyond that wait. Even
    where none waits, fewer threads are a little better.
    """
    tile, splits = choice.tile, choice.splits
    groups = -(-rows // tile.rows) * -(-columns // tile.columns) * splits * batch
    load = groups * tile.threads / (gpu.enough_workgroups * 256)
    each = tile.thread_rows * tile.thread_columns * -(-depth // splits) / EFFICIENCY[tile]
    extra = DISPATCH + PARTIAL * rows * columns * splits if splits > 1 else 0.0
    return (ceil(load) + 0.2 * load) * each + extra
