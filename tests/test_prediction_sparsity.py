"""Sparse constants: what the rules say of them, and what the real delegate computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph_rewrites.densify_constants import densify_constants
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Tensor
from msd.graph.prediction.rules import predict
from msd.graph.rewrite import apply
from msd.measure.judging import judge
from tests.harness import normal
from tests.sparse_constants import densify, mostly_zero, sparse

Found = tuple[str, str, str | None]


def layer(dtype: str = "float32") -> Model:
    """A layer of sparse blocks, as TensorFlow's converter writes it; float16 behind a DEQUANTIZE."""
    new, x = Build(), Tensor("x", (3, 8))
    weights = sparse(mostly_zero(12, 8, dtype=dtype), (1,), [(1, 4)])
    floats = new.DEQUANTIZE(weights, version=3) if dtype == "float16" else weights
    y = new.FULLY_CONNECTED(x, floats, new.const(normal(12)), version=8)
    return Model([Graph([x], [y], new.ops)])


def convolution() -> Model:
    """A convolution, whose filter TensorFlow's converter expands by DENSIFY."""
    new, x = Build(), Tensor("x", (1, 5, 6, 8))
    w, bias = densify(new, sparse(mostly_zero(12, 3, 3, 8))), new.const(normal(12))
    y = new.CONV_2D(x, w, bias, padding="SAME", stride_h=1, stride_w=1)
    return Model([Graph([x], [y], new.ops)])


def found(model: Model, delegate: str) -> list[Found]:
    return [(f.kind, f.severity, f.fix) for f in predict(model, delegate)]


WRONG = ("wrong", "densify_constants")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (layer(), [("FULLY_CONNECTED", *WRONG)]),
        (layer("float16"), [("DEQUANTIZE", *WRONG), ("FULLY_CONNECTED", *WRONG)]),
        (convolution(), [("DENSIFY", "rejected", "densify_constants")]),
    ],
)
def test_litert_s_delegate_does_not_expand(model: Model, expected: list[Found]) -> None:
    assert found(model, "litert-gpu") == expected
    apply(model.main, [densify_constants])
    assert found(model, "litert-gpu") == []


def test_the_classic_delegate_expands_floats() -> None:
    assert found(layer(), "tflite-gpu") == found(layer("float16"), "tflite-gpu") == []
    assert found(convolution(), "tflite-gpu") == []


def test_the_real_delegate_computes_something_else(tmp_path: Path) -> None:
    model, path = layer(), tmp_path / "layer.tflite"
    tflite.write(model, path)
    verdict = judge(path)
    assert verdict.delegated == 1
    assert not verdict.psnr > 30
    apply(model.main, [densify_constants])
    tflite.write(model, path)
    assert judge(path).psnr > 120


def test_the_real_delegate_refuses_densify(tmp_path: Path) -> None:
    tflite.write(convolution(), tmp_path / "convolution.tflite")
    assert [each.kind for each in judge(tmp_path / "convolution.tflite").rejected] == ["DENSIFY"]
