"""keras-cv's graphs as TensorFlow converts them, and rewritten: rejections are explained, then cured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graph_rewrites
from msd.graph import tflite
from msd.graph.ir.embedding_lookup import split_lookup
from msd.graph.ir.weights import Array
from msd.graph.prediction.device import find_device, shipped
from msd.graph.rewrite import apply
from msd.measure.report.examine import examine
from msd.measure.report.report import FAILING, DelegatePrediction
from msd.run.runners.interpreter import Interpreter
from tests import keras_cv_networks as networks
from tests.traced import Traced, trace_random

CASES = {
    "text encoder": lambda: networks.text_encoder(layers=1, narrower=8),
    "transformer block": networks.transformer_block,
    "decoder": lambda: networks.decoder(narrower=4, one_in=7),
}
DELEGATES = ("litert-gpu", "tflite-gpu")


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[str, Traced]:
    return request.param, trace_random(CASES[request.param](), networks.VOCABULARY)


def failing(prediction: DelegatePrediction) -> set[str]:
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
    """In a file made for the delegate: TensorFlow Lite's knows no lookups, so it gets what is behind them."""
    name, traced = case
    files = written(traced, tmp_path)
    assert ("lookup" in files) == (name == "text encoder")
    for device in shipped():
        for delegate in DELEGATES:
            report = examine(files[delegate], [delegate], find_device(device))
            assert failing(report.predictions[0]) == set(), device
            assert report.predictions[0].delegated == report.operations


def written(traced: Traced, folder: Path) -> dict[str, Path]:
    """Write the rewritten network for each delegate, and as "lookup" what was cut off for one of them."""
    model = traced.model()
    apply(model.main, graph_rewrites.load())
    files = dict.fromkeys(DELEGATES, folder / "whole.tflite")
    tflite.write(model, files["litert-gpu"])
    if parts := split_lookup(model):
        files |= {"lookup": folder / "lookup.tflite", "tflite-gpu": folder / "rest.tflite"}
        tflite.write(parts[0], files["lookup"])
        tflite.write(parts[1], files["tflite-gpu"])
    return files


def test_the_lookups_and_the_rest_compute_what_the_whole_did(tmp_path: Path) -> None:
    traced = trace_random(CASES["text encoder"](), networks.VOCABULARY)
    files = written(traced, tmp_path)
    rows = run(files["lookup"], traced.inputs)
    assert set(rows) == {"token_embedding", "position_embedding"}
    found, wanted = run(files["tflite-gpu"], rows), run(files["litert-gpu"], traced.inputs)
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)


def run(path: Path, inputs: dict[str, Array]) -> dict[str, Array]:
    with Interpreter(path) as network:
        return network.run(inputs)
