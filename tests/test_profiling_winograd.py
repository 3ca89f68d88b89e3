"""Winograd's tile sizes: the shapes of a file, their times and errors, in each tile size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from msd.cli import msd
from msd.errors import DelegateFailed
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Tensor
from msd.graph.ir.weights import Weights
from msd.measure.profiling import winograd_worker
from msd.measure.profiling.shapes import MeasureShape, WinogradShape, shapes_of
from msd.measure.profiling.winograd_worker import TileTrial, answer
from tests.webgpu_device import device


def convolution(new: Build, x: Tensor, outputs: int, kernel: int = 3, stride: int = 1) -> Tensor:
    """Return a convolution of x with seeded weights and a bias."""
    rng = np.random.default_rng(outputs)
    shape = outputs, kernel, kernel, x.shape[3]
    weights = (rng.standard_normal(shape) / 9).astype(np.float32)
    bias = rng.standard_normal(outputs).astype(np.float32)
    made: Tensor = new.CONV_2D(
        x,
        Tensor("filter", shape, data=Weights.of(weights)),
        Tensor("bias", (outputs,), data=Weights.of(bias)),
        stride_h=stride,
        stride_w=stride,
    )
    return made


@pytest.fixture
def convolutions(tmp_path: Path) -> Path:
    """A file of convolutions: two alike, one of other channels, and two that Winograd does not compute."""
    x, new = Tensor("x", (1, 9, 6, 8)), Build()
    y = x
    for outputs in (8, 8, 12):
        y = convolution(new, y, outputs)
    result = convolution(new, convolution(new, y, 8, kernel=1), 8, stride=2)
    result.name = "y"
    path = tmp_path / "net.tflite"
    tflite.write(Model([Graph([x], [result], new.ops)]), path)
    return path


def test_shapes_are_counted_and_the_largest_come_first(convolutions: Path) -> None:
    assert list(shapes_of(convolutions).items()) == [
        (WinogradShape(1, 9, 6, 8, 8), 2),
        (WinogradShape(1, 9, 6, 8, 12), 1),
    ]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker measures in this process, on SwiftShader."""
    monkeypatch.setattr(winograd_worker, "opened", lambda half, api: device())


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("shape", [WinogradShape(1, 9, 6, 8, 12), WinogradShape(2, 5, 11, 36, 4)])
def test_every_tile_is_right_and_larger_tiles_less_so(shape: WinogradShape) -> None:
    found = answer(MeasureShape(shape, "fp32", 1)).outputs
    assert found["tiles"].tolist() == [0, 2, 4, 6, 8]
    assert (found["seconds"] > 0).all()
    assert (found["decibels"] > 85).all()
    assert found["decibels"][0] > 120
    assert found["decibels"][4] < found["decibels"][1]


@pytest.mark.usefixtures("here")
def test_a_shape_that_winograd_does_not_compute_is_measured_without(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(MeasureShape(WinogradShape(1, 4, 4, 6, 8), "fp32", 1)).outputs
    assert (found["tiles"].tolist(), int(found["chosen"])) == ([0], 0)


def test_a_wrong_result_has_few_decibels() -> None:
    case = TileTrial(WinogradShape(1, 5, 4, 8, 4), device().gpu)
    exact = np.full((1, 5, 4, 4), np.nan)
    b, y, x = case.pixels
    exact[b, y, x] = case.exact()
    assert case.decibels(exact.reshape(-1)) == float("inf")
    assert case.decibels(1.1 * exact.reshape(-1)) == pytest.approx(20)


@pytest.mark.usefixtures("here")
def test_a_gpu_without_timestamps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    monkeypatch.setattr(winograd_worker, "opened", lambda half, api: replace(device(), timestamps=False))
    with pytest.raises(DelegateFailed, match="has no timestamp queries"):
        answer(MeasureShape(WinogradShape(1, 4, 4, 8, 8), "fp32", 1))


def test_the_command_measures_the_shapes_of_a_file(convolutions: Path) -> None:
    arguments = ["kernels", str(convolutions), "--winograd", "--repeats", "1", "--json"]
    result = CliRunner().invoke(msd, arguments)
    assert result.exit_code == 0, result.output
    (made,) = json.loads(result.stdout)["winograd"]
    assert made["software"] is True
    assert [(shape["count"], shape["outputs"]) for shape in made["shapes"]] == [(2, 8), (1, 12)]
    assert all([each["tile"] for each in shape["tiles"]] == [0, 2, 4, 6, 8] for shape in made["shapes"])
