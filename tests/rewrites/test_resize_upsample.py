"""Nearest-neighbour upsampling."""

from __future__ import annotations

import pytest

from graph_rewrites.resize_upsample import resize_upsample
from msd.graph.ir import Build, Tensor
from tests.harness import Spell, check_no_rewrite, check_rewrite

N, H, W, C = 2, 3, 5, 4


def upsampled(
    up: int,
    side: int,
    *,
    wide: list[int] | None = None,
    tall: list[int] | None = None,
    out: list[int] | None = None,
) -> Spell:
    """Rows repeated `up` times, then columns `side` times, through the shapes `wide` and `tall`."""

    def spell(new: Build, x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        rows = new.TILE(new.RESHAPE(x, wide or [n, h, 1, w, c]), [1, 1, up, 1, 1])
        columns = new.TILE(new.RESHAPE(rows, tall or [n, h * up, w, 1, c]), [1, 1, 1, side, 1])
        return new.RESHAPE(columns, out or [n, h * up, w * side, c])

    return spell


@pytest.mark.parametrize(("up", "side"), [(2, 2), (3, 2), (1, 5), (7, 3)])
@pytest.mark.parametrize("shape", [(N, H, W, C), (1, 11, 13, 1), (1, 1, 1, 3)])
def test_repeats(up: int, side: int, shape: tuple[int, ...]) -> None:
    after_size = [shape[1] * up, shape[2] * side]
    check_rewrite(
        [resize_upsample],
        upsampled(up, side),
        lambda new, x: new.RESIZE_NEAREST_NEIGHBOR(x, after_size),
        tolerance=0,
        x=shape,
    )


def rank_3(new: Build, x: Tensor) -> Tensor:
    tiled = new.TILE(new.RESHAPE(x, [3, 1, 5]), [1, 2, 1])
    return new.RESHAPE(new.TILE(new.RESHAPE(tiled, [6, 5, 1]), [1, 1, 2]), [6, 10])


def whole_rows(new: Build, x: Tensor) -> Tensor:
    rows = new.TILE(new.RESHAPE(x, [N, 1, H, W, C]), [1, 2, 1, 1, 1])
    columns = new.TILE(new.RESHAPE(rows, [N, H * 2, W, 1, C]), [1, 1, 1, 2, 1])
    return new.RESHAPE(columns, [N, H * 2, W * 2, C])


def whole_columns(new: Build, x: Tensor) -> Tensor:
    rows = new.TILE(new.RESHAPE(x, [N, H, 1, W, C]), [1, 1, 2, 1, 1])
    columns = new.TILE(new.RESHAPE(rows, [N, H * 2, 1, W, C]), [1, 1, 2, 1, 1])
    return new.RESHAPE(columns, [N, H * 2, W * 2, C])


def to_rank_4(new: Build, x: Tensor) -> Tensor:
    tiled = new.TILE(new.RESHAPE(x, [1, 3, 1, 5, 1]), [1, 1, 2, 1, 1])
    return new.RESHAPE(new.TILE(new.RESHAPE(tiled, [1, 6, 5, 1, 1]), [1, 1, 1, 2, 1]), [1, 6, 10, 1])


def to_rank_2(new: Build, x: Tensor) -> Tensor:
    return upsampled(2, 2, out=[H * 2 * N, W * 2 * C])(new, x)  # type: ignore[return-value]


def columns_first(new: Build, x: Tensor) -> Tensor:
    """Rows and columns change places in between."""
    rows = new.TILE(new.RESHAPE(x, [N, H, 1, W, C]), [1, 1, 2, 1, 1])
    columns = new.TILE(new.RESHAPE(rows, [N, W, H * 2, 1, C]), [1, 1, 1, 2, 1])
    return new.RESHAPE(columns, [N, H * 2, W * 2, C])


def side_by_side(new: Build, x: Tensor) -> Tensor:
    rows = new.TILE(new.RESHAPE(x, [N, H, 1, W, C]), [1, 1, 2, 1, 1])
    columns = new.TILE(new.RESHAPE(rows, [N, H * 2, W, 1, C]), [1, 1, 2, 1, 1])
    return new.RESHAPE(columns, [N, H * 2, W * 2, C])


@pytest.mark.parametrize(
    ("spell", "because", "shape"),
    [
        (rank_3, "it does not upsample an image", (3, 5)),
        (to_rank_4, "it does not upsample an image", (3, 5)),
        (to_rank_2, "it does not upsample an image", (N, H, W, C)),
        (columns_first, "the second repeat is not of columns", (N, H, W, C)),
        (side_by_side, "the second repeat is not of columns", (N, H, W, C)),
        (
            upsampled(2, 3, out=[N, W * 3, H * 2, C]),
            "its result is not an image upsampled by whole factors",
            (N, H, W, C),
        ),
        (upsampled(2, 2, out=[N, H * 4, W, C]), "the first repeat is not of rows", (N, H, W, C)),
        (whole_rows, "the first repeat is not of rows", (N, H, W, C)),
        (upsampled(2, 2, wide=[N, W, 1, H, C]), "the first repeat is not of rows", (N, H, W, C)),
        (whole_columns, "the second repeat is not of columns", (N, H, W, C)),
    ],
)
def test_not_other_repeats(spell: Spell, because: str, shape: tuple[int, ...]) -> None:
    check_no_rewrite([resize_upsample], spell, because, x=shape)


def test_not_when_the_rows_are_also_an_output() -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        y = upsampled(2, 2)(new, x)
        assert isinstance(y, Tensor)
        return y, new.ops[1].outputs[0]

    check_no_rewrite(
        [resize_upsample], before, because="the inner TILE is also used elsewhere", x=(N, H, W, C)
    )
