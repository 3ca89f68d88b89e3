"""Convolutions by matrix units equal NumPy's; SwiftShader computes the matrices number by number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from msd.gpu.gpu import Gpu, MatrixUnit
from msd.gpu.kernels.matrix_tile import MatrixTile
from msd.gpu.kernels.tiled_convolution import tiled_convolution
from msd.gpu.kernels.winograd import transformed_filter, winograd
from msd.gpu.value import Dispatch, Value
from tests.webgpu.convolutions import Case, case, snr
from tests.webgpu.emulated_matrices import emulated_in_floats
from tests.webgpu.test_winograd import weights_of
from tests.webgpu_device import run

SMALL = MatrixUnit(8, 4, 8, 8)
TILE = MatrixTile(32, 16, 16, 8, SMALL, depth=16)


def found(made: Case, dispatches: list[Dispatch]) -> float:
    """Return the dB of what the dispatches compute."""
    (got,) = run([emulated_in_floats(each, SMALL) for each in dispatches], made.inputs, [made.op.y])
    return snr(made.expected, got)


def halved(made: Case) -> Case:
    """Return the case with an input of halves, for kernels that read it by words."""
    ((old, array),) = [(value, array) for value, array in made.inputs.items() if value is made.op.x]
    x = Value("x", "f16", old.count)
    inputs = {x if value is old else value: each for value, each in made.inputs.items()}
    return replace(made, op=replace(made.op, x=x), inputs=inputs | {x: array.astype(np.float16)})


KINDS: dict[str, dict[str, Any]] = {
    "1x1": {},
    "3x3": {"kernel": (3, 3), "pad": (1, 1, 1, 1)},
    "stride": {"kernel": (3, 3), "stride": (2, 2), "pad": (0, 0, 1, 1)},
    "upsampled": {"kernel": (3, 3), "pad": (1, 1, 1, 1), "upsample": 2},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("buffers", [1, 2])
def test_operands_in_blocks(kind: str, splits: int, buffers: int) -> None:
    made = case((1, 5, 7, 36), 20, extras="scale bias residual", **KINDS[kind])
    assert found(made, tiled_convolution(made.op, Gpu(), replace(TILE, buffers=buffers), splits)) > 100


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("buffers", [1, 2])
def test_operands_in_wide_vectors(kind: str, splits: int, buffers: int) -> None:
    """72 channels: a slice of 16 along K ends within a tap."""
    made = halved(case((1, 5, 7, 72), 24, extras="scale bias residual", **KINDS[kind]))
    tile = replace(TILE, buffers=buffers, wide=True)
    assert found(made, tiled_convolution(made.op, Gpu(), tile, splits)) > 60


@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize("stored", ["int8", "f16"])
def test_a_left_operand_from_storage(buffers: int, stored: Any) -> None:
    """The last tile is half empty; columns are no whole matrices."""
    made = case((1, 6, 8, 32), 20, extras="scale bias residual", stored=stored)
    tile = replace(TILE, buffers=buffers, direct=(True, False))
    assert found(made, tiled_convolution(made.op, Gpu(), tile)) > 100


@pytest.mark.parametrize("tile", [replace(TILE, wide=True, buffers=2), replace(TILE, direct=(True, True))])
def test_a_gate(tile: MatrixTile) -> None:
    made = case((1, 6, 8, 32), 48, extras="scale bias gate")
    if tile.wide:
        made = halved(made)
    tile = replace(tile, direct=(tile.direct[0], False))
    assert found(made, tiled_convolution(made.op, Gpu(), tile)) > 60


@pytest.mark.parametrize("gate", ["", "gate"])
def test_parts_as_floats(gate: str) -> None:
    made = case((1, 8, 8, 96), 32, extras=f"scale bias {gate}")
    tile = replace(TILE, buffers=2, partials=True)
    dispatches = tiled_convolution(made.op, Gpu(), tile, 3)
    assert "subgroupMatrixStore(&partial" in dispatches[0].kernel.wgsl
    assert found(made, dispatches) > 100


@pytest.mark.parametrize(
    "direct", [(False, False), (True, False), (True, True)], ids=["by threads", "left", "both"]
)
@pytest.mark.parametrize("buffers", [1, 2])
def test_winograds_products(direct: tuple[bool, bool], buffers: int) -> None:
    made = case((1, 16, 16, 32), 24, kernel=(3, 3), pad=(1, 1, 1, 1), extras="scale bias")
    filter_ = transformed_filter(lambda: weights_of(made), 24, 32, 4, Gpu(), "w")
    tile = replace(TILE, buffers=buffers, direct=direct)
    assert found(made, winograd(made.op, filter_, 4, Gpu(), size=tile)) > 100
