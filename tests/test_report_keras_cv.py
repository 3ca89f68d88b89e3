"""keras-cv's graphs as TensorFlow converts them, and rewritten: rejections are explained, then cured."""

from __future__ import annotations

from pathlib import Path

import pytest

import graph_rewrites
from msd.device import find_device, shipped
from msd.report.examine import examine
from msd.report.report import FAILING, Prediction
from tests import keras_cv_networks as networks
from tests.traced import Traced, trace_random

CASES = {
    "text encoder": lambda: networks.text_encoder(layers=1, narrower=8),
    "transformer block": networks.transformer_block,
    "decoder": lambda: networks.decoder(narrower=4, one_in=7),
}
DELEGATES = ("litert-gpu", "tflite-gpu")
LOOKED_UP = {("text encoder", "tflite-gpu"): {"EMBEDDING_LOOKUP", "RESHAPE"}}
"""TensorFlow Lite's delegate has no way to look rows up by numbers that the graph is given."""


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[str, Traced]:
    return request.param, trace_random(CASES[request.param](), networks.VOCABULARY)


def failing(prediction: Prediction) -> set[str]:
    return {f.kind for f in prediction.findings if f.severity in FAILING}


def test_what_is_rejected_is_explained(case: tuple[str, Traced], tmp_path: Path) -> None:
    _, traced = case
    traced.write(tmp_path / "plain.tflite")
    for prediction in examine(tmp_path / "plain.tflite", DELEGATES, find_device("adreno-740")).predictions:
        rejected = [f for f in prediction.findings if f.severity == "rejected"]
        assert rejected
        assert prediction.delegated < len(prediction.memory.timeline)
        for finding in rejected:
            assert finding.sentence.startswith(f"{finding.kind} at {finding.op}, which makes ")
            assert finding.source
        assert {f.fix for f in rejected} - {None} <= {rule.name for rule in graph_rewrites.load()}


def test_nothing_remains_on_any_device(case: tuple[str, Traced], tmp_path: Path) -> None:
    name, traced = case
    traced.write(tmp_path / "rewritten.tflite", graph_rewrites.load())
    for device in shipped():
        for prediction in examine(tmp_path / "rewritten.tflite", DELEGATES, find_device(device)).predictions:
            assert failing(prediction) == LOOKED_UP.get((name, prediction.delegate), set()), device
