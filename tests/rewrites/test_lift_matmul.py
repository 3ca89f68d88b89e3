"""Products of two runtime tensors."""

from __future__ import annotations

import pytest

from graph_rewrites.lift_matmul import lift_matmul, transpose_matmul
from tests.harness import check_no_rewrite, check_rewrite

FLAGS = [(False, True), (True, False), (True, True)]


def shapes(adj_x: bool, adj_y: bool, *front: int) -> dict[str, tuple[int, ...]]:
    """Return the operands' shapes of a product (…, 3, 5) . (…, 5, 7)."""
    a, b = (3, 5), (5, 7)
    return {"a": (*front, *(a[::-1] if adj_x else a)), "b": (*front, *(b[::-1] if adj_y else b))}


@pytest.mark.parametrize(("adj_x", "adj_y"), [(False, False), *FLAGS])
def test_rank_3_becomes_rank_4(adj_x: bool, adj_y: bool) -> None:
    def after(new, a, b):  # type: ignore[no-untyped-def]
        left, right = new.RESHAPE(a, [1, *a.shape]), new.RESHAPE(b, [1, *b.shape])
        return new.RESHAPE(new.BATCH_MATMUL(left, right, adj_x=adj_x, adj_y=adj_y), [2, 3, 7])

    check_rewrite(
        [lift_matmul],
        lambda new, a, b: new.BATCH_MATMUL(a, b, adj_x=adj_x, adj_y=adj_y),
        after,
        **shapes(adj_x, adj_y, 2),
    )


@pytest.mark.parametrize(("adj_x", "adj_y"), FLAGS)
def test_flags_become_transposes(adj_x: bool, adj_y: bool) -> None:
    def after(new, a, b):  # type: ignore[no-untyped-def]
        left = new.TRANSPOSE(a, [0, 1, 3, 2]) if adj_x else a
        right = new.TRANSPOSE(b, [0, 1, 3, 2]) if adj_y else b
        return new.BATCH_MATMUL(left, right)

    check_rewrite(
        [transpose_matmul],
        lambda new, a, b: new.BATCH_MATMUL(a, b, adj_x=adj_x, adj_y=adj_y),
        after,
        **shapes(adj_x, adj_y, 2, 4),
    )


@pytest.mark.parametrize("order", [1, -1])
def test_both_in_any_order(order: int) -> None:
    def after(new, a, b):  # type: ignore[no-untyped-def]
        left, right = new.RESHAPE(a, [1, 2, 3, 5]), new.RESHAPE(b, [1, 2, 7, 5])
        return new.RESHAPE(new.BATCH_MATMUL(left, new.TRANSPOSE(right, [0, 1, 3, 2])), [2, 3, 7])

    check_rewrite(
        [lift_matmul, transpose_matmul][::order],
        lambda new, a, b: new.BATCH_MATMUL(a, b, adj_y=True),
        after,
        **shapes(False, True, 2),
    )


def test_not_rank_4() -> None:
    def before(new, a, b):  # type: ignore[no-untyped-def]
        return new.BATCH_MATMUL(a, b)

    check_no_rewrite([lift_matmul], before, because="it is not of rank 3", **shapes(False, False, 2, 4))
    check_no_rewrite([lift_matmul], before, because="it is not of rank 3", a=(3, 5), b=(2, 5, 7))
    check_no_rewrite(
        [lift_matmul],
        lambda new, a, b: new.BATCH_MATMUL(a, b),
        because="it is not of rank 3",
        a=(2, 3, 5),
        b=(5, 7),
    )


def test_not_without_flags() -> None:
    check_no_rewrite(
        [transpose_matmul],
        lambda new, a, b: new.BATCH_MATMUL(a, b),
        because="it has no adj flag",
        **shapes(False, False, 2, 4),
    )


def test_rank_3_is_lifted_before_flags_are_looked_at() -> None:
    because = "it is of rank 3; lift_matmul applies first"
    check_no_rewrite(
        [transpose_matmul],
        lambda new, a, b: new.BATCH_MATMUL(a, b, adj_x=True),
        because=because,
        **shapes(True, False, 2),
    )
