"""Attention whose heads are computed one after another."""

from __future__ import annotations

import pytest

from graph_rewrites.attend_in_turn import attend_in_turn
from msd.graph.ir import Build, Tensor
from msd.graph.rewrite import Target
from msd.graph.rewrite.spelling import spelling_of
from tests.harness import check_no_rewrite, check_rewrite, check_untouched

IN_TURN = Target(spelling=spelling_of("", {"attention_heads": "in_turn"}))


def attention(new: Build, q: Tensor, k: Tensor, v: Tensor, adj_y: bool = True) -> Tensor:
    return new.BATCH_MATMUL(new.SOFTMAX(new.BATCH_MATMUL(q, k, adj_y=adj_y), beta=1.0), v)


@pytest.mark.parametrize("adj_y", [False, True])
@pytest.mark.parametrize(("batch", "heads", "places", "keys"), [(1, 2, 6, 6), (2, 3, 5, 7), (1, 5, 4, 1)])
def test_heads_one_after_another(adj_y: bool, batch: int, heads: int, places: int, keys: int) -> None:
    def after(new: Build, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = zip(*(new.SPLIT(1, t, heads) for t in (q, k, v)), strict=True)
        return new.CONCATENATION(*[attention(new, *part, adj_y) for part in parts], axis=1)

    check_rewrite(
        [attend_in_turn],
        lambda new, q, k, v: attention(new, q, k, v, adj_y),
        after,
        target=IN_TURN,
        q=(batch, heads, places, 8),
        k=(batch, heads, keys, 8) if adj_y else (batch, heads, 8, keys),
        v=(batch, heads, keys, 4),
    )


def test_no_two_scores_exist_at_once() -> None:
    """No tensor but inputs and results is larger than a head's."""
    shapes = {"q": (1, 4, 16, 2), "k": (1, 4, 16, 2), "v": (1, 4, 16, 2)}
    after = check_rewrite(
        [attend_in_turn],
        attention,
        lambda new, q, k, v: new.CONCATENATION(
            *[attention(new, *part) for part in zip(*(new.SPLIT(1, t, 4) for t in (q, k, v)), strict=True)],
            axis=1,
        ),
        target=IN_TURN,
        **shapes,
    )
    assert after.entries["attend_in_turn"].delta["SOFTMAX"] == 3


@pytest.mark.parametrize(
    ("q", "k", "v", "because"),
    [
        ((2, 5, 8), (2, 7, 8), (2, 7, 4), "it is not of rank 4"),
        ((1, 1, 5, 8), (1, 1, 7, 8), (1, 1, 7, 4), "it has one head, or heads share their keys"),
        ((1, 3, 5, 8), (1, 1, 7, 8), (1, 3, 7, 4), "it has one head, or heads share their keys"),
    ],
)
def test_not(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...], because: str) -> None:
    check_no_rewrite([attend_in_turn], attention, because, target=IN_TURN, q=q, k=k, v=v)


def test_not_in_the_standard_spelling() -> None:
    check_untouched([attend_in_turn], attention, q=(1, 2, 5, 8), k=(1, 2, 7, 8), v=(1, 2, 7, 4))
