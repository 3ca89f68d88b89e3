"""Products of two runtime tensors."""

from __future__ import annotations

import pytest

from graph_rewrites.lift_matmul import flag_transposed_matmul, lift_matmul, transpose_matmul
from msd.graph.rewrite import Target
from msd.graph.rewrite.spelling import spelling_of
from tests.harness import check_no_rewrite, check_rewrite, check_untouched

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


ADJ_Y = Target(spelling=spelling_of("", {"attention_key": "adj_y"}))


@pytest.mark.parametrize("adj_x", [False, True])
def test_a_transposed_key_becomes_a_flag(adj_x: bool) -> None:
    check_rewrite(
        [flag_transposed_matmul],
        lambda new, a, b: new.BATCH_MATMUL(a, new.TRANSPOSE(b, [0, 2, 3, 1]), adj_x=adj_x),
        lambda new, a, b: new.BATCH_MATMUL(a, new.TRANSPOSE(b, [0, 2, 1, 3]), adj_x=adj_x, adj_y=True),
        target=ADJ_Y,
        a=(2, 4, 5, 3) if adj_x else (2, 4, 3, 5),
        b=(2, 7, 4, 5),
    )


def test_a_flag_takes_the_place_of_a_transpose() -> None:
    check_rewrite(
        [flag_transposed_matmul],
        lambda new, a, b: new.BATCH_MATMUL(a, new.TRANSPOSE(b, [0, 1, 3, 2])),
        lambda new, a, b: new.BATCH_MATMUL(a, b, adj_y=True),
        target=ADJ_Y,
        a=(2, 4, 3, 5),
        b=(2, 4, 7, 5),
    )


@pytest.mark.parametrize(("perm", "b"), [([0, 2, 1, 3], (2, 5, 4, 7)), ([1, 0, 2, 3], (4, 2, 5, 7))])
def test_other_transposes_stay(perm: list[int], b: tuple[int, ...]) -> None:
    """The matrix's rows are the tensor's last axis: a flag would need another transpose."""
    check_no_rewrite(
        [flag_transposed_matmul],
        lambda new, a, b: new.BATCH_MATMUL(a, new.TRANSPOSE(b, perm)),
        because="the transpose is not of the channels of rank 4",
        target=ADJ_Y,
        a=(2, 4, 3, 5),
        b=b,
    )


def test_rank_3_gets_no_flag() -> None:
    check_no_rewrite(
        [flag_transposed_matmul],
        lambda new, a, b: new.BATCH_MATMUL(a, new.TRANSPOSE(b, [0, 2, 1])),
        because="the transpose is not of the channels of rank 4",
        target=ADJ_Y,
        a=(2, 3, 5),
        b=(2, 7, 5),
    )


def test_flags_stay_where_the_spelling_has_them() -> None:
    check_untouched(
        [transpose_matmul],
        lambda new, a, b: new.BATCH_MATMUL(a, b, adj_y=True),
        target=ADJ_Y,
        **shapes(False, True, 2, 4),
    )
