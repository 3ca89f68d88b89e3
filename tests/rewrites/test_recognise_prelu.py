"""Slopes for each channel."""

from __future__ import annotations

import pytest

from graph_rewrites.recognise_prelu import recognise_prelu
from msd.graph.ir import Build, Tensor
from tests.harness import check_no_rewrite, check_rewrite, check_untouched, normal


def keras(new: Build, x: Tensor, slopes: Tensor, swapped: bool = False) -> Tensor:
    """Return relu(x) + (-slopes)·relu(-x), or its sum and product in the other order."""
    below, above = new.RELU(new.NEG(x)), new.RELU(x)
    product = new.MUL(below, new.NEG(slopes)) if swapped else new.MUL(new.NEG(slopes), below)
    return new.ADD(product, above) if swapped else new.ADD(above, product)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("shape", [(5,), (1, 1, 5), (1, 1, 1, 5)])
def test_a_slope_for_each_channel(shape: tuple[int, ...], swapped: bool) -> None:
    check_rewrite(
        [recognise_prelu],
        before=lambda new, x: keras(new, x, new.const(normal(*shape)), swapped),
        after=lambda new, x: new.PRELU(x, new.const(normal(*shape))),
        x=(2, 3, 4, 5),
    )


@pytest.mark.parametrize("shape", [(), (1,), (4, 1), (4, 5)])
def test_not_with_other_slopes(shape: tuple[int, ...]) -> None:
    check_no_rewrite(
        [recognise_prelu],
        before=lambda new, x: keras(new, x, new.const(normal(*shape))),
        because="there is not one slope for each channel",
        x=(2, 3, 4, 5),
    )


def test_not_of_two_tensors() -> None:
    check_untouched(
        [recognise_prelu],
        before=lambda new, x, y: new.ADD(
            new.RELU(x), new.MUL(new.NEG(new.const(normal(5))), new.RELU(new.NEG(y)))
        ),
        x=(2, 3, 4, 5),
        y=(2, 3, 4, 5),
    )


def test_not_with_an_activation_after_it() -> None:
    check_untouched(
        [recognise_prelu],
        before=lambda new, x: new.ADD(
            new.RELU(x),
            new.MUL(new.NEG(new.const(normal(5))), new.RELU(new.NEG(x))),
            fused_activation_function="RELU6",
        ),
        x=(2, 3, 4, 5),
    )
