from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.convolution import convolve
from msd.gpu.kernels.few_columns import few_columns
from msd.gpu.kernels.few_rows import few_rows
from msd.gpu.kernels.tile_choice import EFFICIENCY, choose_tile
from msd.gpu.operations import Conv2D, Stored
from msd.gpu.value import Value
from tests.webgpu.convolutions import STANDARD, Case, case, snr
from tests.webgpu_device import run


def _snr(made: Case, gpu: Gpu = STANDARD) -> float:
    (got,) = run(convolve(made.op, gpu), made.inputs, [made.op.y])
    return snr(made.expected, got)


def _name(made: Case) -> str:
    return convolve(made.op, Gpu())[0].kernel.name


@pytest.mark.parametrize("stored", ["int8", "int4", "f16", "f32"])
@pytest.mark.parametrize(("batch", "channels", "outputs"), [(1, 96, 68), (3, 31, 30), (4, 33, 1)])
def test_few_rows(batch: int, channels: int, outputs: int, stored: Stored) -> None:
    made = case(
        (batch, 1, 1, channels),
        outputs,
        stored=stored,
        activation="SILU",
        extras="scale bias vector slopes residual",
    )
    assert _name(made) == f"convolution {batch} rows"
    assert _snr(made) > 100


def test_five_rows_are_many() -> None:
    made = case((5, 1, 1, 31), 30)
    assert "rows" not in _name(made)
    assert _snr(made) > 100


@pytest.mark.parametrize("outputs", [1, 3, 4, 7, 8])
@pytest.mark.parametrize("stored", ["int8", "int4"])
def test_few_columns(outputs: int, stored: Stored) -> None:
    made = case(
        (2, 5, 7, 36), outputs, (3, 3), pad=(1, 1, 1, 1), stored=stored, extras="scale bias slopes residual"
    )
    assert _name(made) == f"convolution {outputs} columns"
    assert _snr(made) > 100


@pytest.mark.parametrize(("outputs", "groups"), [(1, 3), (3, 3), (8, 5)])
def test_threads_have_several_pixels_of_a_large_image(outputs: int, groups: int) -> None:
    gpu = Gpu(enough_workgroups=4)
    made = case((1, 11, 13, 36), outputs, (3, 3), (1, 1), (1, 1, 1, 1), extras="scale bias residual")
    assert few_columns(made.op, Gpu(enough_workgroups=100)).groups[0] == 9
    assert few_columns(made.op, gpu).groups[0] == groups
    assert _snr(made, gpu) > 100


def test_nine_columns_are_many() -> None:
    made = case((1, 5, 7, 36), 9, (3, 3), pad=(1, 1, 1, 1))
    assert "columns" not in _name(made)
    assert _snr(made) > 100


@pytest.mark.parametrize("size", [(2, 1, 1, 40), (1, 3, 3, 12)])
@pytest.mark.parametrize("outputs", [8, 48])
@pytest.mark.parametrize("gate", ["gate", "tanh_gate"])
def test_gates(size: tuple[int, int, int, int], outputs: int, gate: str) -> None:
    assert _snr(case(size, outputs, extras=f"scale bias residual {gate}")) > 100


@settings(max_examples=20, deadline=None)
@given(
    size=st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6), st.integers(1, 21)),
    outputs=st.integers(1, 21),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    upsample=st.sampled_from([1, 2]),
    stored=st.sampled_from(["int8", "int4", "f16", "f32"]),
)
def test_any_convolution(
    size: tuple[int, int, int, int],
    outputs: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    upsample: int,
    stored: Stored,
) -> None:
    made = case(size, outputs, kernel, stride, (1, 1, 1, 1), (1, 1), upsample, stored, extras="bias")
    assert _snr(made) > 100


def test_small_products_share_their_sums_on_a_large_gpu() -> None:
    made = case((1, 4, 4, 640), 40, extras="scale bias")
    gpu = Gpu(enough_workgroups=264)
    assert len(convolve(made.op, gpu)) == 2
    assert _snr(made, gpu) > 100
    large = choose_tile(65536, 640, 5760, Gpu(enough_workgroups=64))
    assert (large.tile.rows, large.splits) == (128, 1)


def test_tiles_fit_the_gpu() -> None:
    assert all(tile.threads <= 256 and tile.bytes <= 16384 for tile in EFFICIENCY)
    choice = choose_tile(4096, 640, 5760, Gpu(invocations=64, workgroup_bytes=8192))
    assert choice.tile.threads <= 64


def test_many_tiles_use_two_dimensions_of_workgroups() -> None:
    made = case((1, 40, 40, 4), 12)
    gpu = Gpu(workgroups=10)
    across, down, _ = convolve(made.op, gpu)[0].groups
    assert 1 < down <= across <= 10
    assert _snr(made, gpu) > 100


def _half(op: Conv2D) -> Conv2D:
    """Return the operation with f16 activations."""
    values = {v: Value(v.name, "f16", v.count) for v in (op.x, op.y, op.epilogue.residual) if v}
    return replace(
        op,
        x=values[op.x],
        y=values[op.y],
        epilogue=replace(op.epilogue, residual=values[op.epilogue.residual]),  # type: ignore[index]
    )


@pytest.mark.parametrize("size", [(1, 9, 9, 16), (1, 9, 9, 5), (1, 1, 1, 16)])
def test_half_precision_changes_only_types(size: tuple[int, int, int, int]) -> None:
    made = case(size, 20, (1, 1), extras="scale bias residual")
    (full,) = convolve(made.op, Gpu())
    (half,) = convolve(_half(made.op), Gpu())
    text = half.kernel.wgsl
    assert text.startswith("enable f16;\n")
    assert "f16" in text.split("@group")[1]
    back = text.removeprefix("enable f16;\n").replace("f16", "f32")
    assert back == full.kernel.wgsl.replace("f16", "f32")
    assert not [line for line in text.splitlines() if "var s0" in line and "f16" in line]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="not a few vectors"):
        few_rows(case((5, 1, 1, 8), 8).op, Gpu())
    with pytest.raises(ValueError, match="few columns"):
        few_columns(case((1, 2, 2, 8), 9).op, Gpu())
    with pytest.raises(ValueError, match="pairs of four"):
        convolve(case((1, 3, 3, 8), 16, activation="SILU", extras="gate").op, Gpu())
    with pytest.raises(ValueError, match="a gate needs"):
        convolve(case((1, 3, 3, 8), 16, extras="gate slopes").op, Gpu())
    assert np.isfinite(_snr(case((1, 3, 3, 8), 16)))
