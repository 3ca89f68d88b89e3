"""Layout operators in a row."""

from __future__ import annotations

from itertools import permutations

import pytest

from graph_rewrites.merge_reshapes import merge_reshapes, merge_transposes, reshape_for_transpose
from msd.graph.ir import Build, Tensor
from msd.graph.rewrite import apply
from tests.harness import build, check_no_rewrite, check_rewrite


def test_reshapes() -> None:
    check_rewrite(
        [merge_reshapes],
        lambda new, x: new.RESHAPE(new.RESHAPE(x, [6, 5]), [5, 3, -1]),
        lambda new, x: new.RESHAPE(x, [5, 3, 2]),
        x=(2, 3, 5),
    )


def test_three_reshapes() -> None:
    check_rewrite(
        [merge_reshapes],
        lambda new, x: new.RESHAPE(new.RESHAPE(new.RESHAPE(x, [6, 5]), [30]), [10, 3]),
        lambda new, x: new.RESHAPE(x, [10, 3]),
        x=(2, 3, 5),
    )


def test_an_inner_reshape_with_other_readers_stays_for_them() -> None:
    def spell(new: Build, x: Tensor, *, merged: bool) -> tuple[Tensor, ...]:
        inner = new.RESHAPE(x, [6, 5])
        return new.TANH(inner), new.RESHAPE(x if merged else inner, [5, 6]), inner

    check_rewrite(
        [merge_reshapes],
        lambda new, x: spell(new, x, merged=False),
        lambda new, x: spell(new, x, merged=True),
        x=(2, 3, 5),
    )


@pytest.mark.parametrize("first", list(permutations(range(3))))
@pytest.mark.parametrize("second", [(1, 2, 0), (0, 2, 1)])
def test_transposes(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    check_rewrite(
        [merge_transposes],
        lambda new, x: new.TRANSPOSE(new.TRANSPOSE(x, list(first)), list(second)),
        lambda new, x: new.TRANSPOSE(x, [first[i] for i in second]),
        x=(2, 3, 5),
    )


def test_an_inner_transpose_with_other_readers_stays_for_them() -> None:
    def spell(new: Build, x: Tensor, *, merged: bool) -> tuple[Tensor, ...]:
        inner = new.TRANSPOSE(x, [1, 2, 0])
        outer = new.TRANSPOSE(x, [2, 1, 0]) if merged else new.TRANSPOSE(inner, [1, 0, 2])
        return new.TANH(inner), outer

    check_rewrite(
        [merge_transposes],
        lambda new, x: spell(new, x, merged=False),
        lambda new, x: spell(new, x, merged=True),
        x=(2, 3, 5),
    )


@pytest.mark.parametrize(
    ("shape", "perm"),
    [((1, 3, 1, 5), [1, 0, 3, 2]), ((2, 1, 5), [1, 0, 2]), ((1, 1), [1, 0]), ((1, 2, 3), [1, 2, 0])],
)
def test_a_transpose_of_ones_is_a_reshape(shape: tuple[int, ...], perm: list[int]) -> None:
    check_rewrite(
        [reshape_for_transpose],
        lambda new, x: new.TRANSPOSE(x, perm),
        lambda new, x: new.RESHAPE(x, [shape[i] for i in perm]),
        x=shape,
    )


def test_a_transpose_behind_another_is_merged_with_it() -> None:
    """Whichever rule comes first."""

    def before(new: Build, x: Tensor) -> Tensor:
        return new.TRANSPOSE(new.TRANSPOSE(x, [0, 2, 1, 3]), [1, 2, 3, 0])

    because = "it merges with the transpose before it"
    check_no_rewrite([reshape_for_transpose], before, because, x=(1, 2, 3, 5))
    for rules in ([merge_transposes, reshape_for_transpose], [reshape_for_transpose, merge_transposes]):
        graph = build(before, x=(1, 2, 3, 5))
        apply(graph, rules)
        assert [o.kind for o in graph.ops] == ["TRANSPOSE"]


def test_not_when_more_than_ones_move() -> None:
    because = "axes larger than 1 move"
    check_no_rewrite(
        [reshape_for_transpose], lambda new, x: new.TRANSPOSE(x, [2, 1, 0]), because, x=(2, 1, 5)
    )
    check_no_rewrite([reshape_for_transpose], lambda new, x: new.TRANSPOSE(x, [1, 0]), because, x=(3, 3))
