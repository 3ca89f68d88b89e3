"""Which tile, and how many workgroups that share its sums, a product gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from msd.gpu.gpu import BYTES, Gpu
from msd.gpu.kernels.matrix_tile import MatrixTile
from msd.gpu.kernels.tile import AnyTile, Tile

EFFICIENCY: dict[Tile, float] = {
    Tile(128, 64, 8, 8): 1.0,
    Tile(64, 64, 8, 8): 0.95,
    Tile(64, 128, 8, 8): 0.95,
    Tile(64, 64, 4, 8): 0.86,
    Tile(128, 128, 8, 8): 0.85,
    Tile(32, 64, 4, 8): 0.84,
    Tile(64, 64, 4, 4): 0.78,
    Tile(32, 32, 4, 4): 0.73,
}
"""How fast a thread multiplies in each tile when the GPU is full of them, relative to the first.

Measured on an H100 by scripts/lab/bench_kernels.py: 3x3 over 256x256 pixels of 512 channels. The tile of
128x128 reaches 0.92 there, and less in smaller products, whose last workgroups leave more of the GPU idle.
"""


def _short(rows: int, columns: int, thread_rows: int, thread_columns: int) -> Tile:
    return Tile(rows, columns, thread_rows, thread_columns, short=16, stored="f16", unroll=16)


SHORT_EFFICIENCY: dict[Tile, float] = {
    _short(128, 64, 8, 8): 1.28,
    _short(64, 64, 8, 8): 1.28,
    _short(64, 128, 8, 8): 1.25,
    _short(64, 64, 4, 8): 1.08,
    _short(32, 64, 4, 8): 1.06,
    _short(128, 128, 8, 8): 1.02,
    _short(64, 64, 4, 4): 0.98,
    _short(32, 32, 4, 4): 0.92,
}
"""The same of tiles with short sums, relative to the first of the others.

Measured on an H100 by scripts/lab/bench_variants.py, Winograd's products of 128 channels at 512x512, the
first two as they are, the next two and 128x128 with four steps written out at once; the others in proportion.
With f16 in workgroup memory and sums of f32, the first has 0.91 of its speed: widening costs more than it
saves.
"""

_RATES = EFFICIENCY | SHORT_EFFICIENCY


def _paired(rows: int, columns: int, thread_rows: int, thread_columns: int, depth: int) -> Tile:
    return replace(_short(rows, columns, thread_rows, thread_columns), depth=depth, paired=True)


PAIRED_STEPS: dict[Tile, tuple[float, float, float, float]] = {
    _paired(128, 128, 8, 8, 16): (13160.0, 2.2, 0.02, 1.3),
    _paired(128, 64, 8, 8, 16): (5600.0, 3.7, 0.06, 1.45),
    _paired(64, 128, 8, 8, 32): (12890.0, 1.9, 0.04, 1.05),
    _paired(32, 64, 4, 8, 32): (4320.0, 1.9, 0.18, 1.26),
    _paired(32, 32, 4, 4, 16): (1230.0, 3.6, 0.38, 1.7),
}
"""Of tiles with short sums of pairs: the ns of a step along K with PAIRED_ROOM workgroups on a processor, the
steps that a workgroup's beginning and end are worth, `busy_rounds`' share, and how many times longer a step
takes whose rows a filter's taps read from an image.

Fitted to 1351 times of convolutions and of Winograd's products on an H200 by Dawn
(docs/results/thread-products-h200.json has those of one run), with a median deviation of 3 to 6 %.
"""
PAIRED_ROOM = 10

MATRIX_STEPS: dict[tuple[int, int, int, int, int], tuple[float, float, float, int]] = {
    (128, 128, 64, 32, 32): (3950.0, 5.6, 0.02, 6),
    (128, 64, 64, 32, 32): (1280.0, 4.1, 0.07, 2),
    (128, 64, 64, 32, 64): (7590.0, 2.9, 0.06, 8),
    (128, 64, 32, 32, 32): (1100.0, 4.1, 0.05, 2),
    (128, 64, 32, 32, 64): (6840.0, 2.6, 0.02, 8),
    (64, 64, 32, 32, 32): (592.0, 3.8, 0.79, 2),
    (64, 64, 32, 32, 64): (4860.0, 3.4, 0.07, 8),
    (64, 64, 32, 16, 32): (616.0, 3.3, 0.63, 2),
    (64, 32, 32, 16, 32): (660.0, 2.5, 0.57, 3),
    (64, 32, 32, 16, 64): (748.0, 2.0, 1.0, 2),
}
"""Of matrix tiles of these rows, columns, block rows and columns, and depth: the ns of a step along K with as
many workgroups on a processor as there is room for, the steps that a workgroup's beginning and end are worth,
and `busy_rounds`' share and room. Fitted to 1105 times of convolutions and of Winograd's products on an H200
(docs/results/matrix-products-h200.json has those of one run), with a median deviation of 8 %.
"""

ADDING, ADDED = 11_600.0, 18_200.0
"""The ns of a second dispatch, which adds the parts of split sums, and the bytes of parts for one ns more."""

SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
LEAST_STEPS = 4
"""The fewest steps along K that a part of a split sum has."""

DISPATCH = 3000.0
"""What a second dispatch costs, in multiplications of a thread: about 15 us with its wait."""


@dataclass(frozen=True)
class TileChoice:
    """A tile, and the workgroups that share its sums."""

    tile: AnyTile
    splits: int = 1


def choose_tile(
    rows: int,
    columns: int,
    depth: int,
    gpu: Gpu,
    batch: int = 1,
    gate: bool = False,
    split: bool = True,
    bounded: bool = False,
    halves: bool = False,
    taps: bool = False,
) -> TileChoice:
    """Return the choice with the least estimated time for `batch` products, rows x depth by depth x columns.

    A gate needs threads with eight columns; `split` allows split sums. Of `bounded` operands f16 can hold
    short sums. Where f16 holds all operands, which is `halves`, the GPU's matrix units may multiply them.
    `taps` are a filter's that read rows from an image.
    """
    splits = split and batch == 1
    short = bounded and gpu.half and gpu.short_sums
    stepped: list[AnyTile] = [*matrix_tiles(gpu)] if halves else []
    if not stepped and short and gpu.bitcasts:
        stepped = [*PAIRED_STEPS]
    choices = list(_choices(stepped, depth, gpu, gate, splits))
    if choices:
        return min(choices, key=lambda choice: _step_cost(choice, rows, columns, depth, gpu, batch, taps))
    threads = _choices(SHORT_EFFICIENCY if short else EFFICIENCY, depth, gpu, gate, splits)
    return min(threads, key=lambda choice: _cost(choice, rows, columns, depth, gpu, batch))


def matrix_tiles(gpu: Gpu) -> list[MatrixTile]:
    """Return the tiles that are whole matrices of the GPU's, none without matrix units."""
    unit = gpu.matrix
    if unit is None:
        return []
    tiles = [MatrixTile(*sizes[:4], unit, sizes[4]) for sizes in MATRIX_STEPS]
    return [
        tile
        for tile in tiles
        if tile.block_rows % unit.rows == tile.block_columns % unit.columns == tile.depth % unit.depth == 0
    ]


def _choices(tiles: Iterable[AnyTile], depth: int, gpu: Gpu, gate: bool, split: bool) -> Iterator[TileChoice]:
    for tile in tiles:
        if tile.bytes > gpu.workgroup_bytes or tile.threads > gpu.invocations:
            continue
        if gate and isinstance(tile, Tile) and tile.thread_columns != 8:
            continue
        for splits in SPLITS if split else SPLITS[:1]:
            if splits == 1 or depth >= splits * LEAST_STEPS * tile.depth:
                yield TileChoice(tile, splits)


def _cost(choice: TileChoice, rows: int, columns: int, depth: int, gpu: Gpu, batch: int) -> float:
    """Return the multiplications of a thread one after another.

    The GPU runs as many threads at once as `enough_workgroups` of 256 have; workgroups beyond that wait. Even
    where none waits, fewer threads are a little better.
    """
    tile, splits = choice.tile, choice.splits
    groups = -(-rows // tile.rows) * -(-columns // tile.columns) * splits * batch
    load = groups * tile.threads / (gpu.enough_workgroups * 256)
    # A partial sum is written and read; `balance` / 2 multiplications run while a byte moves.
    partial = BYTES[gpu.real] * gpu.balance / (gpu.enough_workgroups * 256)
    extra = DISPATCH + partial * rows * columns * splits if splits > 1 else 0.0
    assert isinstance(tile, Tile), "matrix tiles have `_step_cost`"
    each = tile.thread_rows * tile.thread_columns * -(-depth // splits) / _RATES[tile]
    return (max(1.0, load) + 0.2 * load) * each + extra


def busy_rounds(groups: int, gpu: Gpu, alone: float, room: int) -> float:
    """Return how often the processor with the most of these workgroups runs as many as it has room for.

    Fewer at a time take less: from the share `alone`, nearly, up to 1 in proportion to their number.
    """
    rounds, rest = divmod(-(-groups // gpu.processors), room)
    return rounds + (alone + (1 - alone) * rest / room if rest else 0.0)


def _step_cost(
    choice: TileChoice, rows: int, columns: int, depth: int, gpu: Gpu, batch: int, taps: bool
) -> float:
    """Return the ns of the processor with the most workgroups, and of adding parts of sums."""
    tile, splits = choice.tile, choice.splits
    step, ends, alone, room = _step(tile, taps)
    groups = -(-rows // tile.rows) * -(-columns // tile.columns) * splits * batch
    steps = -(-depth // (splits * tile.depth)) + ends
    spent = busy_rounds(groups, gpu, alone, room) * steps * step
    parts = 2 * BYTES[gpu.real] * rows * columns * splits
    return spent + (ADDING + parts / ADDED if splits > 1 else 0)


def _step(tile: AnyTile, taps: bool) -> tuple[float, float, float, int]:
    """Return what MATRIX_STEPS have of a tile."""
    if isinstance(tile, MatrixTile):
        return MATRIX_STEPS[tile.rows, tile.columns, tile.block_rows, tile.block_columns, tile.depth]
    ns, ends, alone, longer = PAIRED_STEPS[tile]
    return ns * longer if taps else ns, ends, alone, PAIRED_ROOM
