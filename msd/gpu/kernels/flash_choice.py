"""Which tile, and how many workgroups that share its keys, an attention by threads gets."""

from __future__ import annotations

from dataclasses import replace

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.flash_pieces import PIECES, adding_ns, divides, piece_keys
from msd.gpu.kernels.flash_tile import KEYS_EACH, FlashTile
from msd.gpu.kernels.tile_choice import busy_rounds
from msd.gpu.operations import Attention

LARGEST_HEAD = 256
"""The largest value_size: above, an invocation would need too many vectors for each row of the result."""
LEAST_ACROSS, MOST_ACROSS = 4, 20
NARROWER = (10, 8, 5, LEAST_ACROSS)
MOST_INVOCATIONS = 320
"""The most invocations of a workgroup: 16 rows of 20."""
FEW, LEAST_GROUPS = 5, 16
"""How many times fewer workgroups than fill the GPU a large tile may leave, and the fewest that it may."""
WORTH = 1.1
"""How many times better half as many queries must use the GPU's processors: such a tile reads keys and values
twice as often, and on an H100 is 3 % slower where both use them equally (docs/kernels.md)."""
PADDED = 1.25
"""How many times more keys, with those that pad the last tile, cost more than smaller tiles do."""
USUAL_INVOCATIONS = 128
"""Of two tiles with as many queries, an H100 prefers the one with about so many invocations."""
SHAPES = ((16, 4), (16, 2), (8, 4), (4, 4), (4, 2), (2, 2), (1, 2), (1, 1))
"""(down, rows), the largest tile first: it reads keys and values least often, but leaves few workgroups."""
COSTS = {
    (16, 4, 1): (0.0148, 44, 0.05, 1280),
    (16, 4, 2): (0.0131, 36, 0.06, 1280),
    (16, 4, 4): (0.018, 40, 0.03, 1280),
    (16, 2, 1): (0.0158, 36, 0.12, 2048),
    (16, 2, 2): (0.0146, 33, 0.07, 2048),
    (16, 2, 4): (0.0157, 51, 0.06, 2048),
    (8, 4, 1): (0.0147, 42, 0.04, 2048),
}
"""Of tiles (down, rows, vectors of a row): the ns that a number of a value takes of a query with a key, on a
processor with as many workgroups as there is room for; how many keys a workgroup's start and end are worth;
`busy_rounds`' share; and the invocations that a processor has room for.

Fitted to 614 times with heads of 40 to 160 on an H200 by Dawn, with a median deviation of 1 to 7 %
(docs/results/flash-thread-tiles-h200.json has those of one run).
"""
LEAST_INVOCATIONS = 64
LEAST_QUERIES = 16
"""Smaller tiles are chosen only where workgroup memory has no room for one of these."""


def choose_tile(op: Attention, gpu: Gpu) -> FlashTile | None:
    """Return the tile with the least estimated time on a GPU of many processors, else as `_by_rules`.

    None where no tile's workgroup memory suffices, or the heads are larger than LARGEST_HEAD.
    """
    if op.value_size > LARGEST_HEAD:
        return None
    measured = _measured(op, gpu) if gpu.is_large else None
    return measured or _by_rules(op, gpu)


def _measured(op: Attention, gpu: Gpu) -> FlashTile | None:
    """Return the tile that leaves processors the least work, None where no measured one fits."""
    widest = choose_across(op.value_size)
    widths = [widest, *(n for n in NARROWER if n < widest)]
    known = [tile for n in widths for tile in _tiles(n, gpu) if _shape(tile, op) in COSTS]
    fitting = [tile for tile in known if _fits(tile, op, gpu)]
    divided = [replace(tile, pieces=n) for tile in fitting for n in PIECES]
    possible = [tile for tile in divided if divides(op, tile, gpu)]
    return min(possible, key=lambda tile: _cost(tile, op, gpu), default=None)


def _shape(tile: FlashTile, op: Attention) -> tuple[int, int, int]:
    return tile.down, tile.rows, tile.vectors(op.value_size)


def _cost(tile: FlashTile, op: Attention, gpu: Gpu) -> float:
    """Return the ns of the processor with the most workgroups, and of adding pieces."""
    ns, start, alone, invocations = COSTS[_shape(tile, op)]
    room = max(1, invocations // tile.invocations)
    columns = 4 * tile.across * tile.vectors(op.value_size)
    each = room * tile.queries * (piece_keys(op, tile) + start) * columns * ns
    spent = busy_rounds(_workgroups(tile, op) * tile.pieces, gpu, alone, room) * each
    return spent + adding_ns(op, tile.pieces)


def _by_rules(op: Attention, gpu: Gpu) -> FlashTile | None:
    """Return the largest tile that gives enough workgroups, half of it where that fills the GPU better."""
    preferred = _least_padded(choose_across(op.value_size), op)
    narrower = [n for n in NARROWER if n < preferred]
    families = [[tile for tile in _tiles(n, gpu) if _fits(tile, op, gpu)] for n in (preferred, *narrower)]
    large = [[tile for tile in family if tile.queries >= LEAST_QUERIES] for family in families]
    family = next(filter(None, (*large, *families)), [])
    enough = max(gpu.enough_workgroups // FEW, min(gpu.enough_workgroups, LEAST_GROUPS))
    for tile in family:
        if _workgroups(tile, op) >= enough:
            return _adapted(tile, family, op, gpu)
    return family[-1] if family else None


def _adapted(tile: FlashTile, family: list[FlashTile], op: Attention, gpu: Gpu) -> FlashTile:
    """Return a tile of half as many queries where it keeps processors from idling, or a narrower one."""
    halves = [each for each in family if 2 * each.queries == tile.queries]
    if halves and _used(halves[0], op, gpu) > WORTH * _used(tile, op, gpu):
        return min(halves, key=lambda each: abs(each.invocations - USUAL_INVOCATIONS))
    return _narrowed(tile, op, gpu) if _workgroups(tile, op) >= 2 * gpu.enough_workgroups else tile


def _least_padded(across: int, op: Attention) -> int:
    """Return half of `across` where few keys leave many places of a tile empty, else all of it."""

    def places(across: int) -> int:
        return -(-op.keys // (KEYS_EACH * across)) * across

    half = across // 2
    possible = across % 2 == 0 and half >= LEAST_ACROSS
    return half if possible and PADDED * places(half) < places(across) else across


def _workgroups(tile: FlashTile, op: Attention) -> int:
    return op.batch * op.heads * -(-op.queries // tile.queries)


def _used(tile: FlashTile, op: Attention, gpu: Gpu) -> float:
    """Return which share of the processors works until the last workgroup ends, two of which fill one."""
    groups = _workgroups(tile, op)
    return groups / (-(-groups // gpu.processors) * gpu.processors)


def _narrowed(tile: FlashTile, op: Attention, gpu: Gpu) -> FlashTile:
    """Return a tile with half as many invocations, each with two vectors of a row, where that is possible.

    They read workgroup memory less often; on an H100 that saves 7 % where there are workgroups in plenty.
    """
    half = replace(tile, across=tile.across // 2)
    possible = tile.across % 2 == 0 and half.across >= LEAST_ACROSS and half.invocations >= LEAST_INVOCATIONS
    return half if possible and _fits(half, op, gpu) else tile


def _tiles(across: int, gpu: Gpu) -> list[FlashTile]:
    short = gpu.half and gpu.short_sums
    return [FlashTile(across, down, rows, gpu.real, short_sums=short) for down, rows in SHAPES]


def choose_across(value_size: int) -> int:
    """Return how many invocations share a row: the number with the fewest idle ones, the largest of those."""
    columns = -(-value_size // 4)

    def waste(across: int) -> tuple[float, int]:
        return -(-columns // across) * across / columns, -across

    return min(range(LEAST_ACROSS, MOST_ACROSS + 1), key=waste)


def _fits(tile: FlashTile, op: Attention, gpu: Gpu) -> bool:
    return (
        tile.invocations <= min(gpu.invocations, MOST_INVOCATIONS)
        and tile.bytes(op.size, op.value_size) <= gpu.workgroup_bytes
        and tile.vectors(op.value_size) <= LARGEST_HEAD // 4 // LEAST_ACROSS
    )
