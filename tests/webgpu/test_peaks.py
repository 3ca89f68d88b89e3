"""The GPU's measured peaks: SwiftShader's, and the products that stand for matrix units'."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from msd.gpu import peaks
from msd.gpu.gpu import Gpu, MatrixUnit
from msd.gpu.peaks import TURNS, _matrices, measure_peaks
from msd.graph.ir.weights import Array
from tests.webgpu.emulated_matrices import emulated
from tests.webgpu_device import device, run

UNIT = MatrixUnit(8, 4, 8, 8)


def test_threads_and_memory_have_peaks() -> None:
    opened = device()
    found = measure_peaks(
        replace(opened, gpu=replace(opened.gpu, enough_workgroups=1, binding_bytes=1 << 20))
    )
    assert 1e6 < found.bytes < 1e13
    assert 1e6 < found.flops < 1e14
    assert found.matrix_flops is None
    assert 0 < found.dispatch_seconds < 1


def test_matrices_add_up_every_product() -> None:
    """1/16 times 1/16, as often as the matrices are deep, in every turn."""
    dispatch = emulated(_matrices(Gpu(half=True, enough_workgroups=1, matrix=UNIT)), UNIT)
    text = dispatch.kernel.wgsl.replace("enable f16;\n", "").replace("f16", "f32")
    (y,) = run([replace(dispatch, kernel=replace(dispatch.kernel, wgsl=text))], {}, [dispatch.writes[0]])
    np.testing.assert_allclose(y, TURNS * UNIT.depth / 256)
    assert dispatch.flops == 2 * 4 * 8 * TURNS * 2 * UNIT.rows * UNIT.columns * UNIT.depth


class Timed:
    """A session whose runs take so many seconds of a clock."""

    def __init__(self, seconds: float) -> None:
        self.now, self.submitted, self._seconds = 0.0, 0, seconds

    def time(self, inputs: dict[str, Array]) -> list[float]:
        self.now += self._seconds
        return [self.now]

    def submit(self) -> None:
        self.submitted += 1

    def wait(self) -> None:
        pass


@pytest.mark.parametrize(("seconds", "submitted", "timed"), [(0.5, 5, 5), (3.0, 0, 2)])
def test_what_runs_for_seconds_runs_twice(
    seconds: float, submitted: int, timed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Timed(seconds)
    monkeypatch.setattr(peaks, "perf_counter", lambda: session.now)
    assert len(peaks._times(session)) == timed  # type: ignore[arg-type]
    assert session.submitted == submitted
