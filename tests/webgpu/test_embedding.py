"""Rows of tables, stored in every way, arrive exactly."""

from __future__ import annotations

import numpy as np
import pytest

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.embedding import Table, gather, look_up
from msd.gpu.operations import Stored
from msd.gpu.value import Value
from msd.graph.ir.weights import Array
from tests.webgpu.arrays import GPU, only_types_differ, random, value
from tests.webgpu_device import constant, run

ROWS = 5
IDS = np.array([3, 0, 4, 4, 1, 2, 0], np.int32)
STORED: list[Stored] = ["int8", "int4", "f16", "f32"]


def stored_rows(stored: Stored, columns: int) -> tuple[Array, Array]:
    """Return a table's numbers, and the array that stores them."""
    numbers = np.random.default_rng(columns)
    least = {"int8": -128, "int4": -8}.get(stored)
    if least is None:
        table = numbers.standard_normal((ROWS, columns)).astype({"f16": "f2", "f32": "f4"}[stored])
    else:
        table = numbers.integers(least, -least, (ROWS, columns)).astype(np.int8)
    multiple = 8 if stored == "int4" else 4
    padded = np.pad(table, ((0, 0), (0, -columns % multiple)))
    if stored == "int4":
        nibbles = padded.view(np.uint8) & 15
        padded = nibbles[:, ::2] | nibbles[:, 1::2] << 4
    flat = np.ascontiguousarray(padded)
    return table, flat if stored == "f32" else flat.view(np.uint32)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("columns", [1, 3, 7, 8, 12, 20])
@pytest.mark.parametrize("scaled", [True, False])
def test_look_up(stored: Stored, columns: int, scaled: bool) -> None:
    rows, packed = stored_rows(stored, columns)
    scale = random(ROWS, seed=columns)
    table = Table(
        values=constant("table", packed),
        stored=stored,
        rows=ROWS,
        columns=columns,
        scale=constant("scale", scale) if scaled else None,
    )
    ids, y = Value("ids", "i32", IDS.size), value("y", IDS.size * columns)
    (found,) = run(look_up(ids, table, y, GPU), {ids: IDS}, [y])
    factor = scale[IDS][:, None] if scaled else np.float32(1)
    assert np.array_equal(found.reshape(-1, columns), rows[IDS].astype(np.float32) * factor)


@pytest.mark.parametrize("columns", [1, 6, 8])
def test_gather(columns: int) -> None:
    array = random(ROWS, columns)
    ids, x = Value("ids", "i32", IDS.size), value("x", array.size)
    y = value("y", IDS.size * columns)
    (found,) = run(gather(ids, x, ROWS, columns, y, GPU), {ids: IDS, x: array}, [y])
    assert np.array_equal(found.reshape(-1, columns), array[IDS])


def test_numbers_outside_the_table_read_its_ends() -> None:
    array = random(ROWS, 4)
    ids, x, y = Value("ids", "i32", 2), value("x", array.size), value("y", 8)
    wrong = np.array([-3, 99], np.int32)
    (found,) = run(gather(ids, x, ROWS, 4, y, GPU), {ids: wrong, x: array}, [y])
    assert np.array_equal(found.reshape(2, 4), array[[0, ROWS - 1]])


def test_f16_changes_types_only() -> None:
    ids = Value("ids", "i32", 3)
    (full,) = gather(ids, value("x", 40), 5, 8, value("y", 24), GPU)
    (half,) = gather(ids, Value("x", "f16", 40), 5, 8, Value("y", "f16", 24), Gpu(half=True))
    assert only_types_differ(full, half)
