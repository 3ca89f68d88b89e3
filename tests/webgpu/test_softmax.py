"""Softmax and its statistics equal NumPy's, at every way of reading rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.rows import choose_rows
from msd.gpu.kernels.softmax import row_statistics, softmax
from msd.gpu.operations import Softmax
from msd.gpu.value import Value
from msd.graph.ir.weights import Array
from tests.webgpu.arrays import GPU, decibels, only_types_differ, random, value
from tests.webgpu_device import run


def expected(x: Array, beta: float) -> tuple[Array, Array]:
    """Return the softmax, and (maximum, sum) of each row."""
    scaled = x.astype(np.float64) * beta
    top = scaled.max(1, keepdims=True)
    powers = np.exp(scaled - top)
    total = powers.sum(1, keepdims=True)
    return powers / total, np.concatenate([top, total], 1)


def operation(rows: int, columns: int, beta: float = 1.0) -> Softmax:
    return Softmax(value("x", rows * columns), value("y", rows * columns), rows, columns, beta)


# Lanes of 8, 16 … 256; registers and, above 2048 or 8192 elements, loops; vectors of four or single elements.
SIZES = [(1, 1), (5, 8), (33, 31), (3, 33), (2, 77), (3, 256), (2, 1028), (1, 2049), (2, 4096), (1, 8196)]


@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_rows(rows: int, columns: int) -> None:
    op, x = operation(rows, columns, 0.7), 5 * random(rows, columns)
    stats = value("stats", 2 * rows)
    whole, pairs = expected(x, 0.7)
    (y,) = run(softmax(op, GPU), {op.x: x}, [op.y])
    (found,) = run(row_statistics(op, stats, GPU), {op.x: x}, [stats])
    assert decibels(y, whole) >= 120
    assert decibels(found, pairs) >= 120


@given(rows=st.integers(1, 40), columns=st.integers(1, 90), beta=st.sampled_from([1.0, 0.125, -2.0]))
@settings(max_examples=12, deadline=None)
def test_any_size_and_factor(rows: int, columns: int, beta: float) -> None:
    op, x = operation(rows, columns, beta), 3 * random(rows, columns, seed=1)
    (y,) = run(softmax(op, GPU), {op.x: x}, [op.y])
    assert decibels(y, expected(x, beta)[0]) >= 120


def test_large_differences_neither_overflow_nor_vanish() -> None:
    op = operation(3, 80)
    x = random(3, 80)
    x[0, 3], x[1] = 1e4, x[1] - 1e5
    (y,) = run(softmax(op, GPU), {op.x: x}, [op.y])
    assert decibels(y, expected(x, 1.0)[0]) >= 120


def test_minus_infinity_masks_an_element() -> None:
    op = operation(2, 77)
    x = random(2, 77)
    x[0, 1:], x[1, :70] = -np.inf, -np.inf
    (y,) = run(softmax(op, GPU), {op.x: x}, [op.y])
    assert decibels(y, expected(x, 1.0)[0]) >= 120


def test_more_rows_than_workgroups_along_a_dimension() -> None:
    op, x = operation(1000, 4), random(1000, 4)
    few = Gpu(workgroups=7)
    (dispatch,) = softmax(op, few)
    assert max(dispatch.groups) <= 7
    (y,) = run([dispatch], {op.x: x}, [op.y])
    assert decibels(y, expected(x, 1.0)[0]) >= 120


def test_f16_changes_types_only() -> None:
    x, y = Value("x", "f16", 160), Value("y", "f16", 160)
    (half,) = softmax(Softmax(x, y, 2, 80), Gpu(half=True))
    (full,) = softmax(operation(2, 80), GPU)
    assert only_types_differ(full, half)


def test_long_rows_are_shared_by_more_invocations() -> None:
    assert [choose_rows(n).lanes for n in (4, 128, 132, 1024, 4096, 40960)] == [8, 8, 16, 64, 256, 256]
    assert [choose_rows(n).owned for n in (4096, 8192, 8196)] == [4, 8, 0]
    assert choose_rows(77).width == 1
    assert choose_rows(80, aligned=False).width == 1
