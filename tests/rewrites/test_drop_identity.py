"""Operators that hand on their input unchanged."""

from __future__ import annotations

import pytest

from graph_rewrites.drop_identity import drop_reshape, drop_slice, drop_transpose
from msd.graph.ir import Build, Graph, Tensor
from tests.harness import check_no_rewrite, check_rewrite, strided_slice

MASKS = {"begin_mask": 7, "end_mask": 7}


def test_reshape_to_the_same_shape() -> None:
    check_rewrite(
        [drop_reshape],
        lambda new, x: new.TANH(new.RESHAPE(x, [2, 3, 5])),
        lambda new, x: new.TANH(x),
        x=(2, 3, 5),
    )


def test_the_last_operator_may_go_when_another_result_takes_its_name() -> None:
    check_rewrite(
        [drop_reshape],
        lambda new, x: new.RESHAPE(new.TANH(x), [2, 3, 5]),
        lambda new, x: new.TANH(x),
        x=(2, 3, 5),
    )


def test_not_when_an_output_would_become_an_input() -> None:
    check_no_rewrite(
        [drop_reshape],
        lambda new, x: new.RESHAPE(x, [2, 3]),
        because="a graph output would become another name for x",
        x=(2, 3),
    )


def test_not_when_an_output_would_become_another_output() -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        y = new.TANH(x)
        return y, new.RESHAPE(y, [2, 3])

    check_no_rewrite([drop_reshape], before, because="a graph output would become another name", x=(2, 3))


def test_transpose_in_order() -> None:
    check_rewrite(
        [drop_transpose],
        lambda new, x: new.TANH(new.TRANSPOSE(x, [0, 1, 2])),
        lambda new, x: new.TANH(x),
        x=(2, 3, 5),
    )


def test_slice_of_everything() -> None:
    check_rewrite(
        [drop_slice],
        lambda new, x: new.TANH(new.SLICE(x, [0, 0, 0], [2, -1, 5])),
        lambda new, x: new.TANH(x),
        x=(2, 3, 5),
    )


@pytest.mark.parametrize("attrs", [{}, MASKS])
def test_strided_slice_of_everything(attrs: dict[str, int]) -> None:
    check_rewrite(
        [drop_slice],
        lambda new, x: new.TANH(strided_slice(new, x, [0, 0, 0], [2, 3, 5], [1, 1, 1], (2, 3, 5), **attrs)),
        lambda new, x: new.TANH(x),
        x=(2, 3, 5),
    )


@pytest.mark.parametrize(
    ("rule", "before", "because"),
    [
        (drop_reshape, lambda new, x: new.RESHAPE(x, [3, 10]), "the shape changes"),
        (drop_transpose, lambda new, x: new.TRANSPOSE(x, [2, 1, 0]), "the order changes"),
        (drop_transpose, lambda new, x: new.TRANSPOSE(x, [1, 0, 2]), "the order changes"),
        (drop_slice, lambda new, x: new.SLICE(x, [0, 1, 0], [2, 2, 5]), "it selects a part"),
        (
            drop_slice,
            lambda new, x: strided_slice(new, x, [0, -1, 0], [2, -4, 5], [1, -1, 1], (2, 3, 5)),
            "it selects a part",
        ),
    ],
)
def test_not_what_changes_something(rule, before, because: str) -> None:  # type: ignore[no-untyped-def]
    check_no_rewrite([rule], before, because=because, x=(2, 3, 5))


def test_not_a_stride_that_is_not_known() -> None:
    new, x, step = Build(), Tensor("x", (2, 3)), Tensor("step", (2,), "INT32")
    y = strided_slice(new, x, [0, 0], [2, 3], [1, 1], (2, 3))
    y.maker.inputs = (*y.maker.inputs[:3], step)
    graph = Graph([x, step], [new.TANH(y)], new.ops)
    check_no_rewrite([drop_slice], graph, because="it selects a part")
