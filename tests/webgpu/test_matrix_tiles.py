"""Tiles of matrix units: which are chosen for which adapter, and what their shaders declare.

No software adapter has the units: that the shaders compile and are right is measured on a GPU
(docs/results/networks-h200.json). Here they are computed as written, by NumPy.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from msd.gpu.device import choose_unit
from msd.gpu.gpu import Gpu, MatrixUnit
from msd.gpu.kernels.convolution import convolve
from msd.gpu.kernels.filters import pack_filter
from msd.gpu.kernels.matrix_tile import MatrixTile, matrix_multiply, matrix_sums
from msd.gpu.kernels.product import multiply
from msd.gpu.kernels.tile_choice import choose_tile
from msd.gpu.operations import Conv2D, Matrices, Product
from msd.gpu.value import Value

UNIT = MatrixUnit(16, 16, 16, 32)
H100 = Gpu(
    half=True, subgroups=True, invocations=1024, workgroup_bytes=49152, enough_workgroups=264, matrix=UNIT
)


def offered(**changes: Any) -> dict[str, Any]:
    """Return a configuration as Dawn's adapters offer it."""
    sizes = {"m": 16, "n": 16, "k": 16, "min_subgroup_size": 32, "max_subgroup_size": 32}
    return {"component_type": "f16", "result_component_type": "f32", **sizes, **changes}


def test_the_largest_matrices_are_taken() -> None:
    assert choose_unit([offered(k=8), offered(), offered(n=8)]) == UNIT


@pytest.mark.parametrize(
    "changes",
    [
        {"component_type": "i8", "result_component_type": "i32"},
        {"result_component_type": "f16"},
        {"component_type": "f32"},
        {"min_subgroup_size": 16},
        {"m": 2},
    ],
)
def test_what_the_kernels_cannot_use_is_left(changes: dict[str, Any]) -> None:
    """Integers, sums of f16, subgroups of several sizes, and matrices of odd sizes."""
    assert choose_unit([offered(**changes)]) is None


def test_halves_alone_meet_matrices() -> None:
    assert isinstance(choose_tile(4096, 320, 320, H100, halves=True).tile, MatrixTile)
    assert not isinstance(choose_tile(4096, 320, 320, H100).tile, MatrixTile)
    assert not isinstance(
        choose_tile(4096, 320, 320, replace(H100, matrix=None), halves=True).tile, MatrixTile
    )


def test_tiles_are_whole_matrices() -> None:
    """Blocks of 16 rows or columns do not fit matrices of 32."""
    tile = choose_tile(128, 128, 320, replace(H100, matrix=MatrixUnit(32, 8, 16, 32)), halves=True).tile
    assert isinstance(tile, MatrixTile)
    assert tile.block_rows % 32 == tile.block_columns % 8 == 0
    assert not isinstance(
        choose_tile(128, 128, 320, replace(H100, matrix=MatrixUnit(64, 64, 64, 32)), halves=True).tile,
        MatrixTile,
    )


@pytest.mark.parametrize(("memory", "invocations"), [(16384, 256), (32768, 256), (49152, 1024)])
def test_limits_are_kept(memory: int, invocations: int) -> None:
    gpu = replace(H100, workgroup_bytes=memory, invocations=invocations)
    for rows, columns, depth in ((65536, 512, 4608), (64, 1280, 11520), (4096, 2560, 320)):
        tile = choose_tile(rows, columns, depth, gpu, halves=True).tile
        assert tile.bytes <= memory
        assert tile.threads <= invocations


def test_large_products_have_large_tiles_and_long_sums_are_split() -> None:
    large = choose_tile(65536, 512, 4608, H100, halves=True)
    assert (large.tile.rows, large.tile.columns, large.splits) == (128, 128, 1)
    assert choose_tile(64, 1280, 11520, H100, halves=True).splits > 1
    assert choose_tile(1024, 640, 640, H100, halves=True).tile.columns < 128


def convolution(stored: str) -> Conv2D:
    """Return a 1x1 convolution of 24x24 pixels, 64 to 128 channels."""
    dtype = {"int8": np.int8, "f16": np.float16, "f32": np.float32}[stored]
    weights = np.ones((128, 1, 1, 64), dtype)
    filter_ = pack_filter(lambda: weights, stored, 64, 128, None, H100, "w")  # type: ignore[arg-type]
    sizes = {"batch": 1, "height": 24, "width": 24, "channels": 64, "out_height": 24, "out_width": 24}
    return Conv2D(Value("x", "f16", 576 * 64), filter_, Value("y", "f16", 576 * 128), **sizes)


@pytest.mark.parametrize(("stored", "uses"), [("int8", True), ("f16", True), ("f32", False)])
def test_float32_weights_stay_float32(stored: str, uses: bool) -> None:
    (dispatch,) = convolve(convolution(stored), H100)
    assert ("subgroupMatrixMultiplyAccumulate" in dispatch.kernel.wgsl) == uses
    assert dispatch.kernel.wgsl.startswith("enable subgroups;") == uses
    assert not any(
        "subgroup" in each.kernel.wgsl for each in convolve(convolution(stored), replace(H100, matrix=None))
    )


def test_products_of_activations_meet_matrices() -> None:
    sides = [Matrices(Value(name, "f16", 128 * 128), 0, 128 * 128, 128, 1) for name in "aby"]
    (dispatch,) = multiply(Product(*sides, batch=1, rows=128, columns=128, depth=128), H100)
    assert "subgroup_matrix_left<f16, 16, 16>" in dispatch.kernel.wgsl


TILES = [
    MatrixTile(64, 32, 32, 16, UNIT),
    MatrixTile(32, 64, 16, 32, MatrixUnit(8, 16, 8, 16)),
    MatrixTile(128, 64, 32, 32, MatrixUnit(16, 8, 16, 32)),
]


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("pairs", [False, True])
def test_the_text_multiplies_a_step_and_hands_out_each_sum_once(tile: MatrixTile, pairs: bool) -> None:
    """NumPy loads, multiplies and stores what the text says, for every subgroup and lane."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((tile.rows, tile.depth)), rng.standard_normal((tile.depth, tile.columns))
    left, right = np.zeros((tile.rows, tile.left_row)), np.zeros((tile.depth, tile.right_row))
    left[:, : tile.depth], right[:, : tile.columns] = a, b
    found, uses = np.zeros((tile.rows, tile.columns)), np.zeros((tile.rows, tile.columns))
    multiplied, handed = (
        matrix_multiply(tile),
        matrix_sums(tile, pairs, lambda row, column, s: f"USE {row};{column};"),
    )
    across = tile.columns // tile.block_columns
    for subgroup in range(tile.subgroups):
        names = {"block_row": subgroup // across * tile.block_rows}
        names |= {"block_column": subgroup % across * tile.block_columns, "staged": 0}
        sums = _multiplied(multiplied, left.reshape(-1), right.reshape(-1), names, tile)
        for row, column, values in _handed(handed, sums, names, tile, pairs):
            found[row, column : column + len(values)] = values
            uses[row, column : column + len(values)] += 1
    assert (uses == 1).all()
    np.testing.assert_allclose(found, a @ b, rtol=1e-12, atol=1e-12)


def _value(text: str, names: dict[str, int]) -> int:
    return int(eval(re.sub(r"(\d)u\b", r"\1", text).replace("/", "//"), {}, names))


def _multiplied(
    text: str, left: np.ndarray, right: np.ndarray, names: dict[str, int], tile: MatrixTile
) -> dict[str, np.ndarray]:
    unit = tile.unit
    shapes = {"left": (unit.rows, unit.depth), "right": (unit.depth, unit.columns)}
    sums = {f"s{i}_{j}": np.zeros((unit.rows, unit.columns)) for i, j in tile.matrices}
    loaded: dict[str, np.ndarray] = {}
    for line in text.splitlines():
        if load := re.match(r"let (\w+) = subgroupMatrixLoad<.*>>\(&(\w+), (.*), false, (\d+)u\);", line):
            name, array, at, stride = load.groups()
            rows, columns = shapes[array]
            places = _value(at, names) + np.arange(rows)[:, None] * int(stride) + np.arange(columns)
            loaded[name] = {"left": left, "right": right}[array][places]
        elif product := re.match(r"(\w+) = subgroupMatrixMultiplyAccumulate\((\w+), (\w+), \1\);", line):
            name, one, other = product.groups()
            sums[name] += loaded[one] @ loaded[other]
    return sums


def _handed(
    text: str, sums: dict[str, np.ndarray], names: dict[str, int], tile: MatrixTile, pairs: bool
) -> list[tuple[int, int, np.ndarray]]:
    stage, unit, handed, at = np.zeros(tile.staged), tile.unit, [], ""
    for line in text.splitlines():
        if store := re.match(r"subgroupMatrixStore\(&stage, (.*), (\w+), false, (\d+)u\);", line):
            places = _value(store[1], names) + np.arange(unit.rows)[:, None] * int(store[3])
            stage[places + np.arange(unit.columns)] = sums[store[2]]
        elif place := re.match(r"let at = (.*);", line):
            at = place[1]
        elif use := re.match(r"USE (.*);(.*);", line):
            each = 8 if pairs else 4
            for e in range(unit.rows * tile.block_columns // each):
                here = names | {"e": e, "first_row": 0, "first_column": 0}
                first = _value(at, here)
                handed.append(
                    (_value(use[1], here), _value(use[2], here) * each, stage[first : first + each].copy())
                )
    return handed
