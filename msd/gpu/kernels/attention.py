"""Attention: fused where its heads are small, else by products with a softmax between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msd.errors import DelegateFailed
from msd.gpu.gpu import BYTES, Gpu
from msd.gpu.kernels.flash import flash
from msd.gpu.kernels.flash_choice import choose_tile
from msd.gpu.kernels.flash_matrix import choose_matrix_tile, flash_by_matrices
from msd.gpu.kernels.product import multiply
from msd.gpu.kernels.rows import MAIN, has_half
from msd.gpu.kernels.softmax import row_statistics, softmax
from msd.gpu.operations import Attention, Heads, Matrices, Product, Softmax
from msd.gpu.value import Dispatch, Kernel, Value
from msd.gpu.wgsl import groups_for, header

LARGEST_FLASH = 160
"""The largest heads that FlashAttention is chosen for: tiles of larger ones have too few queries."""


def choose_flash(op: Attention, gpu: Gpu) -> bool:
    """Return whether to `attend`: the heads are small, and a tile of them fits workgroup memory."""
    fits = choose_matrix_tile(op, gpu) is not None or choose_tile(op, gpu) is not None
    return max(op.size, op.value_size) <= LARGEST_FLASH and fits


def attend(op: Attention, gpu: Gpu, step: str = "") -> list[Dispatch]:
    """Return FlashAttention's dispatches; raises DelegateFailed where no tile fits workgroup memory.

    A mask may hold minus infinity; of a query whose keys are all masked, the result means nothing.
    """
    by_matrices = choose_matrix_tile(op, gpu)
    if by_matrices is not None:
        return flash_by_matrices(op, by_matrices, gpu, step)
    tile = choose_tile(op, gpu)
    if tile is None:
        raise DelegateFailed(
            f"no tile of attention with heads of {op.size} and {op.value_size} fits this GPU's "
            f"{gpu.workgroup_bytes} bytes of workgroup memory"
        )
    return flash(op, tile, gpu, step)


def attend_partially(op: Attention, gpu: Gpu, step: str = "") -> list[Dispatch]:
    """Return the scores' product, their rows' statistics, and the product that finishes the softmax.

    "Speed Is All You Need", arXiv 2304.11267, section 3.3: exponentials and divisions happen as the second
    product loads. Where the scores are larger than a binding may be, parts of them follow each other.
    """
    dispatches: list[Dispatch] = []
    for part in _parts(op, gpu):
        scores, found = _scores(op, part, gpu, step)
        stats = Value(f"{scores.name} statistics", "f32", 2 * part.rows)
        rows = Softmax(scores, scores, part.rows, op.keys)
        dispatches += [*found, *row_statistics(rows, stats, gpu, step)]
        dispatches += _weigh(op, part, scores, stats, gpu, step)
    return dispatches


def attend_plainly(op: Attention, gpu: Gpu, step: str = "") -> list[Dispatch]:
    """Return the scores' product, their softmax, and the product with the values; parts follow each other."""
    dispatches: list[Dispatch] = []
    for part in _parts(op, gpu):
        scores, found = _scores(op, part, gpu, step)
        weights = Value(f"{scores.name} softmax", scores.element, scores.count)
        dispatches += [*found, *softmax(Softmax(scores, weights, part.rows, op.keys), gpu, step)]
        dispatches += _weigh(op, part, weights, None, gpu, step)
    return dispatches


@dataclass(frozen=True)
class ScorePart:
    """`queries` queries from number `query` of `count` heads from number `head` of a batch.

    Where there is one head, of `count` batches from number `batch`.
    """

    batch: int
    head: int
    count: int
    query: int
    queries: int

    @property
    def rows(self) -> int:
        """The rows of its scores."""
        return self.count * self.queries


def _parts(op: Attention, gpu: Gpu) -> Iterator[ScorePart]:
    """Yield parts whose scores fit a binding: several heads, or some queries of one."""
    most = max(1, gpu.binding_bytes // (op.keys * BYTES[gpu.real]))
    queries = min(op.queries, most)
    side_by_side, batches = (op.batch, 1) if op.heads == 1 else (op.heads, op.batch)
    count = min(side_by_side, max(1, most // op.queries))
    for batch in range(batches):
        for start in range(0, side_by_side, count):
            for query in range(0, op.queries, queries):
                first = (start, 0) if op.heads == 1 else (batch, start)
                yield ScorePart(
                    *first,
                    count=min(count, side_by_side - start),
                    query=query,
                    queries=min(queries, op.queries - query),
                )


def _matrices(
    op: Attention, part: ScorePart, heads: Heads, first_row: int, transposed: bool = False
) -> Matrices:
    row, column = (1, heads.row) if transposed else (heads.row, 1)
    return Matrices(
        value=heads.value,
        offset=heads.offset + part.batch * heads.batch + part.head * heads.head + first_row * heads.row,
        batch=heads.batch if op.heads == 1 else heads.head,
        row=row,
        column=column,
    )


def _scores_at(op: Attention, part: ScorePart, scores: Value) -> Matrices:
    return Matrices(value=scores, offset=0, batch=part.queries * op.keys, row=op.keys, column=1)


def _scores(op: Attention, part: ScorePart, gpu: Gpu, step: str) -> tuple[Value, list[Dispatch]]:
    scores = Value(
        f"{op.y.value.name} scores {part.batch} {part.head} {part.query}", gpu.real, part.rows * op.keys
    )
    product = Product(
        a=_matrices(op, part, op.q, part.query),
        b=_matrices(op, part, op.k, 0, transposed=True),
        y=_scores_at(op, part, scores),
        batch=part.count,
        rows=part.queries,
        columns=op.keys,
        depth=op.size,
        scale=op.scale,
    )
    dispatches = multiply(product, gpu, step)
    if op.mask is not None:
        dispatches.append(_add_mask(scores, op.mask, part, op.keys, gpu, step))
    return scores, dispatches


def _weigh(
    op: Attention, part: ScorePart, weights: Value, stats: Value | None, gpu: Gpu, step: str
) -> list[Dispatch]:
    product = Product(
        a=_scores_at(op, part, weights),
        b=_matrices(op, part, op.v, 0),
        y=_matrices(op, part, op.y, part.query),
        batch=part.count,
        rows=part.queries,
        columns=op.value_size,
        depth=op.keys,
        stats=stats,
    )
    return multiply(product, gpu, step)


ADD_MASK = (
    MAIN
    + """
  let number = (group.x + group.y * groups.x) * 256u + t;
  if (number >= p.rows * p.columns) { return; }
  let row = number / p.columns % p.queries + p.query;
  // The lowest f16 stands for whatever is lower.
  scores[number] = Y(max(f32(scores[number]) + mask[row * p.columns + number % p.columns], -65504.0));
}
"""
)


def _add_mask(scores: Value, mask: Value, part: ScorePart, keys: int, gpu: Gpu, step: str) -> Dispatch:
    fields = ["rows: u32", "columns: u32", "query: u32", "queries: u32"]
    code = header({"mask": (mask, 1)}, {"scores": (scores, 1)}, fields, half=has_half((scores,)))
    return Dispatch(
        kernel=Kernel("add mask", f"{code}alias Y = {scores.element};\n{ADD_MASK}"),
        reads=(mask,),
        writes=(scores,),
        groups=groups_for(-(-part.rows * keys // 256), gpu.workgroups),
        params=(part.rows, keys, part.query, part.queries),
        flops=part.rows * keys,
        step=step,
    )
