"""FlashAttention (Dao et al., arXiv 2205.14135; Dao, arXiv 2307.08691): scores never leave the workgroup."""

from __future__ import annotations

from dataclasses import replace

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.flash_shader import LOG2_E, flash_wgsl
from msd.gpu.kernels.flash_tile import KEYS_EACH, FlashTile
from msd.gpu.kernels.rows import has_half
from msd.gpu.operations import Attention
from msd.gpu.value import Dispatch, Kernel, Value
from msd.gpu.wgsl import header

LARGEST_HEAD = 256
"""The largest value_size: above, an invocation would need too many vectors for each row of the result."""
LEAST_ACROSS, MOST_ACROSS = 4, 20
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
LEAST_INVOCATIONS = 64
LEAST_QUERIES = 16
"""Smaller tiles are chosen only where workgroup memory has no room for one of these."""


def choose_tile(op: Attention, gpu: Gpu) -> FlashTile | None:
    """Return the largest tile that gives enough workgroups, half of it where that fills the GPU better.

    None where no tile's workgroup memory suffices, or the heads are larger than LARGEST_HEAD.
    """
    if op.value_size > LARGEST_HEAD:
        return None
    preferred = _least_padded(choose_across(op.value_size), op)
    narrower = [n for n in (10, 8, 5, LEAST_ACROSS) if n < preferred]
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


def flash(op: Attention, tile: FlashTile, gpu: Gpu, step: str = "") -> Dispatch:
    """Return the one dispatch that computes `op` by `tile`."""
    width = row_width(op)
    # Queries, keys and values may lie in one value, which a dispatch can bind only once.
    values = {"q": op.q.value, "k": op.k.value, "v": op.v.value}
    names = {name: next(n for n, v in values.items() if v is values[name]) for name in values}
    reads: dict[str, tuple[Value, int]] = {names[name]: (values[name], width) for name in values}
    if op.mask is not None:
        reads["mask"] = (op.mask, 1)
    used = tuple(value for value, _ in reads.values())
    fields = ["queries: u32", "keys: u32", "scale: f32"]
    fields += [f"{name}_{part}: u32" for name in "qkvy" for part in ("offset", "batch", "head", "row")]
    half = has_half((*used, op.y.value)) or tile.stored == "f16"
    code = header(reads, {"y": (op.y.value, width)}, fields, half=half)
    names |= {"element": op.q.value.element, "y_element": op.y.value.element}
    code += flash_wgsl(tile, op.size, op.value_size, width, names, op.mask is not None)
    strides = [
        number // width
        for heads in (op.q, op.k, op.v, op.y)
        for number in (heads.offset, heads.batch, heads.head, heads.row)
    ]
    return Dispatch(
        kernel=Kernel(f"flash attention {op.size}, {tile.queries} x {tile.keys}", code),
        reads=used,
        writes=(op.y.value,),
        groups=(-(-op.queries // tile.queries), op.heads, op.batch),
        params=(op.queries, op.keys, op.scale * LOG2_E, *strides),
        flops=op.flops,
        step=step,
    )


def row_width(op: Attention) -> int:
    """Return 4 where all rows are whole vectors at places that four divides, else 1."""
    numbers = [op.size, op.value_size]
    for heads in (op.q, op.k, op.v, op.y):
        numbers += [heads.offset, heads.batch, heads.head, heads.row]
    return 4 if all(number % 4 == 0 for number in numbers) else 1
