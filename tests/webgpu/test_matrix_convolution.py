"""Convolutions by matrix units equal NumPy's; SwiftShader computes the matrices number by number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from msd.gpu.gpu import Gpu, MatrixUnit
from msd.gpu.kernels.matrix_tile import MatrixTile
from msd.gpu.kernels.tiled_convolution import tiled_convolution
from msd.gpu.kernels.wide_operands import wide_image
from msd.gpu.kernels.winograd import transformed_filter, winograd
from msd.gpu.operations import Epilogue
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
def test_operands_in_blocks(kind: str, splits: int) -> None:
    made = case((1, 5, 7, 36), 20, extras="scale bias residual", **KINDS[kind])
    assert found(made, tiled_convolution(made.op, Gpu(), TILE, splits)) > 100


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("depth", [16, 32])
def test_operands_in_wide_vectors(kind: str, splits: int, depth: int) -> None:
    """72 channels: a slice ends within a tap, and the last beyond all."""
    made = halved(case((1, 5, 7, 72), 24, extras="scale bias residual", **KINDS[kind]))
    dispatches = tiled_convolution(made.op, Gpu(), replace(TILE, depth=depth), splits)
    assert "x: array<vec4<u32>>" in dispatches[0].kernel.wgsl
    assert "weights: array<vec" in dispatches[0].kernel.wgsl
    assert found(made, dispatches) > 60


@pytest.mark.parametrize(
    ("outputs", "depth", "width"),
    [(64, 64, "vec2<u32>"), (16, 64, "vec2<u32>"), (24, 64, "u32"), (40, 32, "u32")],
)
@pytest.mark.parametrize("splits", [1, 2])
def test_eight_weights_of_a_word(outputs: int, depth: int, width: str, splits: int) -> None:
    """The last slice along K ends beyond all; int4 has -8, too, which no positive number mirrors."""
    made = case((1, 5, 7, 36), outputs, extras="scale bias residual", stored="int4", **KINDS["3x3"])
    dispatches = tiled_convolution(made.op, Gpu(), replace(TILE, depth=depth), splits)
    assert f"weights: array<{width}>" in dispatches[0].kernel.wgsl
    assert "0x88888888u" in dispatches[0].kernel.wgsl
    assert found(made, dispatches) > 100


@pytest.mark.parametrize("tile", [TILE, MatrixTile(16, 32, 8, 8, SMALL, depth=32)], ids=str)
@pytest.mark.parametrize("stored", ["int8", "int4"])
def test_a_gate(tile: MatrixTile, stored: Any) -> None:
    made = halved(case((1, 6, 8, 32), 48, extras="scale bias gate", stored=stored))
    assert found(made, tiled_convolution(made.op, Gpu(), tile)) > 60


@pytest.mark.parametrize(("stored", "outputs"), [("f16", 24), ("int4", 24), ("int8", 20), ("int8", 36)])
def test_weights_that_are_read_otherwise(stored: Any, outputs: int) -> None:
    """Other types, and columns that are no whole vectors of two or four words."""
    made = case((1, 5, 7, 48), outputs, extras="scale bias", stored=stored)
    assert found(made, tiled_convolution(made.op, Gpu(), TILE)) > 100


def test_a_value_that_the_epilogue_reads_too_is_not_bound_twice() -> None:
    made = halved(case((1, 4, 4, 32), 32, extras="scale"))
    op = replace(made.op, epilogue=Epilogue(residual=made.op.x))
    assert wide_image(op, TILE) is None
    assert wide_image(made.op, TILE) is not None


def test_winograds_products() -> None:
    made = case((1, 16, 16, 32), 24, kernel=(3, 3), pad=(1, 1, 1, 1), extras="scale bias")
    filter_ = transformed_filter(lambda: weights_of(made), 24, 32, 4, Gpu(), "w")
    assert found(made, winograd(made.op, filter_, 4, Gpu(), size=TILE)) > 100


def test_winograds_products_of_halves_are_read_in_wide_vectors() -> None:
    gpu = Gpu(half=True)
    made = case((1, 16, 16, 32), 24, kernel=(3, 3), pad=(1, 1, 1, 1), extras="scale bias")
    filter_ = transformed_filter(lambda: weights_of(made), 24, 32, 4, gpu, "w")
    text = winograd(made.op, filter_, 4, gpu, size=replace(TILE, depth=32))[1].kernel.wgsl
    assert "v: array<vec4<u32>>" in text
    assert "weights: array<vec4<u32>>" in text
