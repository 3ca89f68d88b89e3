"""The GPU's measured peaks: SwiftShader's, and the products that stand for matrix units'."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from msd.gpu.gpu import Gpu, MatrixUnit
from msd.gpu.peaks import TURNS, _matrices, measure_peaks
from tests.webgpu.emulated_matrices import emulated
from tests.webgpu_device import device, run

UNIT = MatrixUnit(8, 4, 8, 8)


def test_threads_and_memory_have_peaks() -> None:
    opened = device()
    peaks = measure_peaks(
        replace(opened, gpu=replace(opened.gpu, enough_workgroups=1, binding_bytes=1 << 20))
    )
    assert 1e6 < peaks.bytes < 1e13
    assert 1e6 < peaks.flops < 1e14
    assert peaks.matrix_flops is None
    assert 0 < peaks.dispatch_seconds < 1


def test_matrices_add_up_every_product() -> None:
    """1/16 times 1/16, as often as the matrices are deep, in every turn."""
    dispatch = emulated(_matrices(Gpu(half=True, enough_workgroups=1, matrix=UNIT)), UNIT)
    text = dispatch.kernel.wgsl.replace("enable f16;\n", "").replace("f16", "f32")
    (y,) = run([replace(dispatch, kernel=replace(dispatch.kernel, wgsl=text))], {}, [dispatch.writes[0]])
    np.testing.assert_allclose(y, TURNS * UNIT.depth / 256)
    assert dispatch.flops == 2 * 4 * 8 * TURNS * 2 * UNIT.rows * UNIT.columns * UNIT.depth
