"""The float16 audit: its numbers are NumPy's, and it finds what overflows and what vanishes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import graph_rewrites
from msd.cli.report import report
from msd.compress.calibration.ranges import CURES, LARGEST, SMALLEST_NORMAL, Range, audit, magnitudes
from msd.compress.encoding.encode import encode
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.errors import BadModelFile
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Tensor
from msd.graph.ir.weights import Array, Weights
from msd.measure.report import float16_audit
from msd.measure.report.report import Audit
from msd.models.demo import CHECKPOINT
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs
from tests import tiny_models
from tests.harness import build

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(1, 5, 7, 6)).astype(np.float32) * 30
KERNEL = RANDOM.normal(size=(8, 1, 1, 6)).astype(np.float32)
STRIDE = {"stride_w": 1, "stride_h": 1}
BIAS = RANDOM.normal(size=8).astype(np.float32)


def written(graph: Graph, folder: Path) -> Path:
    tflite.write(Model([graph]), folder / "model.tflite")
    return folder / "model.tflite"


def by_kind(path: Path, *inputs: dict[str, Array]) -> dict[str, Range]:
    return {found.kind: found for found in audit(path, inputs)}


def spell(new: Build, x: Tensor) -> Tensor:
    kernel, bias = new.const(KERNEL, "kernel"), new.const(BIAS, "bias")
    hidden = new.CONV_2D(x, kernel, bias, **STRIDE, fused_activation_function="RELU")
    return new.MEAN(new.SQUARE(hidden), [1, 2], keep_dims=True)


def test_the_numbers_are_numpys(tmp_path: Path) -> None:
    found = by_kind(written(build(spell, x=X.shape), tmp_path), {"x": X}, {"x": X / 2})
    matrix = KERNEL.reshape(8, 6).T
    hidden = np.maximum(X @ matrix + BIAS, 0)
    assert found["CONV_2D"].largest == pytest.approx(hidden.max(), rel=1e-5)
    sums = (np.abs(X) @ np.abs(matrix) + np.abs(BIAS)).max()
    assert found["CONV_2D"].sums == pytest.approx(sums, rel=1e-5)
    assert found["SQUARE"].largest == pytest.approx((hidden**2).max(), rel=1e-5)
    assert found["SQUARE"].sums is None
    assert found["MEAN"].largest == pytest.approx((hidden**2).mean((1, 2)).max(), rel=1e-5)
    assert found["MEAN"].sums == pytest.approx((hidden**2).sum((1, 2)).max(), rel=1e-5)
    assert [f.op for f in audit(tmp_path / "model.tflite", [{"x": X}])] == [0, 1, 2]


def test_magnitudes_are_those_of_the_audit(tmp_path: Path) -> None:
    found = by_kind(written(build(spell, x=X.shape), tmp_path), {"x": X})
    graph = build(spell, x=X.shape)
    named = [op.outputs[0] for op in graph.ops if op.kind != "MEAN"]
    wanted = {t.name: found[t.maker.kind].largest for t in named}
    assert magnitudes(graph, named, [{"x": X}]) == pytest.approx(wanted, rel=1e-6)


def test_int8_weights_count_as_what_they_mean(tmp_path: Path) -> None:
    kernel = RANDOM.normal(size=(64, 1, 1, 64)).astype(np.float32)
    x = RANDOM.normal(size=(1, 3, 5, 64)).astype(np.float32)

    def quantised(new: Build, x: Tensor) -> Tensor:
        learnt = Weights(kernel.shape, kernel.dtype, lambda: kernel, "kernel")
        return new.CONV_2D(x, new.const(learnt, "kernel"), new.const(np.zeros(64, np.float32)), **STRIDE)

    graph = build(quantised, x=x.shape)
    assert encode(graph, find_recipe("gpu-w8"), "unet").stored["INT8"] == 1
    (found,) = audit(written(graph, tmp_path), [{"x": x}])
    assert found.largest == pytest.approx(np.abs(x @ kernel.reshape(64, 64).T).max(), rel=0.02)


def test_matrix_products(tmp_path: Path) -> None:
    y = RANDOM.normal(size=(1, 2, 6, 3)).astype(np.float32)
    x = RANDOM.normal(size=(1, 2, 5, 6)).astype(np.float32)
    graph = build(lambda new, x, y: new.BATCH_MATMUL(x, y), x=x.shape, y=y.shape)
    (found,) = audit(written(graph, tmp_path), [{"x": x, "y": y}])
    assert found.largest == pytest.approx(np.abs(x @ y).max(), rel=1e-5)
    assert found.sums == pytest.approx((np.abs(x) @ np.abs(y)).max(), rel=1e-5)


def test_thresholds_are_float16s(tmp_path: Path) -> None:
    path = written(build(lambda new, x: new.NEG(x), x=(1, 4)), tmp_path)

    def of(*values: float) -> Range:
        return audit(path, [{"x": np.array([values], np.float32)}])[0]

    assert not of(LARGEST, 0, 1, -1).overflows
    assert of(0, -65520, 1, 1).overflows
    assert Range(0, "MUL", "", 1e5, None).cure == "clip_gelu"
    assert of(np.nan, 0, 0, 0).overflows
    assert of(0, SMALLEST_NORMAL / 2, 0, 0).vanishes
    assert not of(0, -SMALLEST_NORMAL, 0, 0).vanishes
    assert not of(0, 0, 0, 0).vanishes
    with np.errstate(over="ignore"):
        assert np.isfinite(np.float16(LARGEST))
        assert np.isinf(np.float16(65520))


def test_sums_may_overflow_where_results_do_not(tmp_path: Path) -> None:
    path = written(build(lambda new, x: new.MEAN(x, [1], keep_dims=True), x=(1, 1000)), tmp_path)
    (found,) = audit(path, [{"x": np.full((1, 1000), 100, np.float32)}])
    assert found.largest == pytest.approx(100)
    assert found.sums_overflow
    assert not found.overflows
    assert found.cure is None


def test_cures_are_rewrites() -> None:
    assert set(CURES.values()) <= {rule.name for rule in graph_rewrites.load()}


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(b"TFL3" * 20)
    with pytest.raises(BadModelFile):
        audit(tmp_path / "model.tflite", [])


def test_the_demo_is_clean_until_its_inputs_are_scaled(tmp_path: Path) -> None:
    rules = [r for r in graph_rewrites.load() if r.name != "clip_gelu"]
    convert(CHECKPOINT, tmp_path / "out", Settings(rules, find_recipe("float32"), ("unet",)))
    path = tmp_path / "out" / "unet.tflite"
    with Interpreter(path) as network:
        inputs = random_inputs(network.inputs.values())
    assert not any(found.overflows for found in audit(path, [inputs]))
    loud = {name: value * 1e4 for name, value in inputs.items()}
    fired = {found.kind for found in audit(path, [loud]) if found.overflows}
    assert "CONV_2D" in fired


def test_a_stopped_audit_names_the_files_that_it_did_not_come_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, measured = tiny_models.save("whole", tmp_path), float16_audit.audited
    others = [shutil.copy(whole, tmp_path / f"{name}.tflite") for name in ("second", "third")]

    def until_the_second(path: Path, *given: Any) -> Audit:
        if path.stem == "second":
            raise KeyboardInterrupt
        return measured(path, *given)

    monkeypatch.setattr(float16_audit, "audited", until_the_second)
    result = CliRunner().invoke(report, [*map(str, [whole, *others]), "--no-run", "--audit-fp16"])
    table = result.stderr.partition("stopped: ")[0]
    assert table.count("all in range") == 1
    assert table.splitlines()[-1] == "2 of 3 files not audited: second.tflite, third.tflite"
