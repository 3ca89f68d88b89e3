"""Reductions equal NumPy's, over last and middle axes, in one stage and in two."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.reduction import LONG_ROW, Reduction, choose_columns, reduce
from msd.gpu.value import Dispatch, Value
from msd.graph.ir.weights import Array
from tests.webgpu.arrays import GPU, decibels, only_types_differ, random, value
from tests.webgpu_device import run

NUMPY: dict[Reduction, Callable[..., Array]] = {
    "SUM": np.sum,
    "MEAN": np.mean,
    "REDUCE_MAX": np.max,
    "REDUCE_MIN": np.min,
}


def check(kind: Reduction, outer: int, reduced: int, inner: int, gpu: Gpu = GPU) -> list[Dispatch]:
    array = random(outer, reduced, inner) + 3
    x, y = value("x", array.size), value("y", outer * inner)
    dispatches = reduce(kind, x, y, outer, reduced, inner, gpu)
    (found,) = run(dispatches, {x: array}, [y])
    assert decibels(found, NUMPY[kind](array.astype(np.float64), axis=1)) >= 120
    return dispatches


@pytest.mark.parametrize("kind", list(NUMPY))
@pytest.mark.parametrize(
    ("sizes", "stages"),
    [((2, 77, 1), 1), ((1, 4096, 20), 2), ((3, 7, 5), 1), ((1, 2050, 3), 2), ((1, 9001, 1), 1)],
)
def test_kinds(kind: Reduction, sizes: tuple[int, int, int], stages: int) -> None:
    assert len(check(kind, *sizes)) == stages


@pytest.mark.parametrize("kind", ["MEAN", "REDUCE_MAX"])
@pytest.mark.parametrize("length", [LONG_ROW, LONG_ROW + 64, 3 * 65536])
def test_a_long_row_is_folded_to_columns_first(kind: Reduction, length: int) -> None:
    assert len(check(kind, 1, length, 1)) == 1 + (length > LONG_ROW) + (length > 100000)


@given(outer=st.integers(1, 3), reduced=st.integers(1, 700), inner=st.integers(1, 140))
@settings(max_examples=12, deadline=None)
def test_any_size(outer: int, reduced: int, inner: int) -> None:
    check("MEAN", outer, reduced, inner)


def test_more_workgroups_than_a_dimension_has() -> None:
    for dispatch in check("SUM", 40, 3, 5, Gpu(workgroups=7)):
        assert max(dispatch.groups) <= 7


def test_slabs_cover_all_and_fill_the_gpu() -> None:
    columns = choose_columns(1, 4096, 320, Gpu(enough_workgroups=100))
    assert columns.slabs * 3 >= 100 or columns.slab <= 8 * columns.lanes
    assert (columns.slabs - 1) * columns.slab < 4096 <= columns.slabs * columns.slab


@pytest.mark.parametrize("sizes", [(2, 12, 8), (3, 80, 1)])
def test_f16_changes_types_only(sizes: tuple[int, int, int]) -> None:
    outer, reduced, inner = sizes
    count = outer * reduced * inner
    x, y = Value("x", "f16", count), Value("y", "f16", outer * inner)
    (half,) = reduce("MEAN", x, y, *sizes, Gpu(half=True))
    (full,) = reduce("MEAN", value("x", count), value("y", outer * inner), *sizes, GPU)
    assert only_types_differ(full, half)
