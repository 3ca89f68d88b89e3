"""Cases of few operations: what only shows between them."""

from __future__ import annotations

from collections.abc import Iterator

from msd.graph.ir import Op, Tensor
from tests.oracle.case import Case, given, ints, model, numbers, op

F32 = "FLOAT32"
MIXED: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3, 5, 8), (3, 5, 8)),
    ((2, 3, 5, 8), (5, 8)),
    ((2, 3, 5, 8), (8,)),
    ((3, 5, 8), (5, 8)),
    ((3, 5, 8), (8,)),
    ((5, 8), (8,)),
    ((5, 5, 5, 5), (5, 5)),
]


def cases() -> Iterator[Case]:
    """Yield every case of this file."""
    yield from _between()
    yield from _attention()
    yield from _normalisation()
    yield from _after_a_reduction()


def _tanh(x: Tensor) -> Op:
    return op("TANH", [x], (x.shape, F32))


def _between() -> Iterator[Case]:
    for kind in ("ADD", "SUB", "MUL"):
        for long, short in MIXED:
            a, b = _tanh(given(*long)), _tanh(given(*short))
            last = op(kind, [a.outputs[0], b.outputs[0]], (long, F32))
            yield Case(f"{kind} between, {list(long)} with {list(short)}", model(a, b, last))
            a, b = _tanh(given(*long)), _tanh(given(*short))
            last = op(kind, [b.outputs[0], a.outputs[0]], (long, F32))
            yield Case(f"{kind} between, {list(short)} with {list(long)}", model(a, b, last))
            a = _tanh(given(*long))
            last = op(kind, [a.outputs[0], numbers(*short)], (long, F32))
            yield Case(f"{kind} between, {list(long)} with a constant {list(short)}", model(a, last))


def _attention() -> Iterator[Case]:
    """softmax(q·kᵀ)·v with the heads as batches, at rank 3 and rank 4, with flags and without."""
    for lead in [(3,), (1, 3), (2, 3)]:
        for flag in (True, False):
            q, v = given(*lead, 5, 8), given(*lead, 7, 8)
            k = given(*lead, 7, 8) if flag else given(*lead, 8, 7)
            scores = op("BATCH_MATMUL", [q, k], ((*lead, 5, 7), F32), adj_y=flag)
            mask = op("ADD", [scores.outputs[0], given(*(1 for _ in lead), 5, 7)], ((*lead, 5, 7), F32))
            soft = op("SOFTMAX", mask.outputs, ((*lead, 5, 7), F32), beta=1.0)
            last = op("BATCH_MATMUL", [soft.outputs[0], v], ((*lead, 5, 8), F32))
            ops = model(scores, mask, soft, last)
            yield Case(f"BATCH_MATMUL attention {list(lead)}{', adj_y' * flag}", ops)


def _normalisation() -> Iterator[Case]:
    """x - mean(x) of rank 2 to 4, over one axis or more, keeping them or not."""
    for shape, axes in [((5, 8), (1,)), ((3, 5, 8), (2,)), ((2, 3, 5, 8), (1, 2)), ((2, 3, 5, 8), (3,))]:
        x = given(*shape)
        kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
        mean = op("MEAN", [x, ints(*axes)], (kept, F32), keep_dims=True)
        last = op("SUB", [x, mean.outputs[0]], (shape, F32))
        yield Case(f"MEAN then SUB, {list(shape)} over {list(axes)}", model(mean, last))


def _after_a_reduction() -> Iterator[Case]:
    for kind in ("MEAN", "SUM"):
        for shape, axis in [
            ((3, 5, 8), 0),
            ((3, 5, 8), 1),
            ((2, 3, 5, 8), 1),
            ((2, 3, 5, 8), 3),
            ((5, 8), 1),
        ]:
            rest = tuple(n for i, n in enumerate(shape) if i != axis)
            first = op(kind, [given(*shape), ints(axis)], (rest, F32))
            yield Case(f"{kind} {list(shape)} over {axis}, then TANH", model(first, _tanh(first.outputs[0])))
            first = op(kind, [given(*shape), ints(axis)], (rest, F32))
            last = op("ADD", [first.outputs[0], given(*rest)], (rest, F32))
            yield Case(f"{kind} {list(shape)} over {axis}, then ADD", model(first, last))
