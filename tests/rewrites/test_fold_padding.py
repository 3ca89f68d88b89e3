"""Zeros that a convolution would add itself."""

from __future__ import annotations

from typing import Any

import pytest

from graph_rewrites.fold_padding import fold_padding
from msd.graph.ir import Build, Tensor
from tests.harness import check_no_rewrite, check_rewrite, check_untouched, conv

PADS = {(3, 3): (1, 1, 1, 1), (2, 3): (0, 1, 1, 1), (5, 4): (2, 2, 1, 2), (1, 1): (0, 0, 0, 0)}


def padded(kernel: tuple[int, int], pads: tuple[int, ...], **attrs: Any):  # type: ignore[no-untyped-def]
    def spell(new: Build, x: Tensor) -> Tensor:
        top, bottom, left, right = pads
        wide = new.PAD(x, [[0, 0], [top, bottom], [left, right], [0, 0]])
        return conv(new, wide, 7, kernel, **{"padding": "VALID", **attrs})

    return spell


@pytest.mark.parametrize("kernel", PADS)
@pytest.mark.parametrize("activation", ["NONE", "RELU6"])
def test_padding_as_same_pads(kernel: tuple[int, int], activation: str) -> None:
    fused = {"fused_activation_function": activation}
    check_rewrite(
        [fold_padding],
        padded(kernel, PADS[kernel], **fused),
        lambda new, x: conv(new, x, 7, kernel, **fused),
        x=(2, 6, 5, 3),
    )


@pytest.mark.parametrize("pads", [(1, 1, 1, 0), (1, 0, 1, 1), (2, 2, 2, 2), (0, 2, 1, 1), (0, 0, 0, 0)])
def test_not_other_padding(pads: tuple[int, ...]) -> None:
    because = "is not what SAME means for a 3x3 filter"
    check_no_rewrite([fold_padding], padded((3, 3), pads), because=because, x=(2, 6, 5, 3))


def test_not_padding_of_batch_or_channels() -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        return conv(new, new.PAD(x, [[0, 0], [1, 1], [1, 1], [0, 1]]), 7, (3, 3), padding="VALID")

    check_no_rewrite(
        [fold_padding], before, because="is not what SAME means for a 3x3 filter", x=(2, 6, 5, 3)
    )


@pytest.mark.parametrize(
    "attrs", [{"stride_h": 2, "stride_w": 2}, {"dilation_h_factor": 2}, {"padding": "SAME"}]
)
def test_not_a_convolution_that_pads_otherwise(attrs: dict[str, Any]) -> None:
    check_untouched([fold_padding], padded((3, 3), (1, 1, 1, 1), **attrs), x=(2, 6, 5, 3))


def test_not_when_the_padded_picture_is_used_twice() -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        wide = new.PAD(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
        return conv(new, wide, 7, (3, 3), padding="VALID"), new.TANH(wide)

    check_no_rewrite([fold_padding], before, because="the inner PAD is also used elsewhere", x=(2, 6, 5, 3))
