"""The witness: the real one on files that it takes, and on files that it does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from msd.graph import tflite
from msd.measure.report import witness
from msd.measure.report.witness import witnesses
from tests import tiny_models, varied_models
from tests.int8_layers import save_layer
from tests.old_runtime import needs_old_runtime

pytestmark = needs_old_runtime


def test_it_is_content_with_a_plain_file(tmp_path: Path) -> None:
    (runtime,) = witnesses(tiny_models.save("whole", tmp_path), 120)
    assert (runtime.name, runtime.ok, runtime.says) == (
        "tflite-runtime 2.14.0, CPU",
        True,
        "loads and runs it",
    )


def test_the_old_runtime_objects_to_what_it_does_not_know(tmp_path: Path) -> None:
    model = tflite.read(tiny_models.save("cut_off", tmp_path))
    model.main.ops[-1].version = 99
    tflite.write(model, tmp_path / "newer.tflite")
    (runtime,) = witnesses(tmp_path / "newer.tflite", 120)
    assert not runtime.ok
    assert runtime.says == "is too old for MUL of version 99"


def test_results_are_compared_with_litert_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One scale for each channel, of which tflite-runtime 2.14 takes 0; as if nobody had known."""
    monkeypatch.setattr(witness, "misread_weights", lambda model: None)
    (runtime,) = witnesses(save_layer(tmp_path, "FULLY_CONNECTED", 12), 120)
    assert not runtime.ok
    assert re.fullmatch(r"loads and runs it, but its results are -?\d+\.\d dB from LiteRT's", runtime.says)


def test_one_that_is_lost_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_models.save("whole", tmp_path)
    assert witnesses(path, 0.01)[0].says == "was stopped after 0.01 s"
    monkeypatch.setattr(witness, "RUN", "import os; os.abort()")
    assert witnesses(path, 60)[0].says == "crashed with signal 6"
    monkeypatch.setattr(witness, "RUN", "raise SystemExit('no words to say')")
    assert witnesses(path, 60)[0].says == "failed: no words to say"


def test_what_is_not_installed_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "installed_versions", lambda *names: {})
    assert witnesses(tmp_path / "any.tflite", 1) == ()


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")
@pytest.mark.parametrize("name", ["counter", "spectrogram"])
def test_operators_without_results_and_complex_numbers_are_no_matter(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.tflite").write_bytes(varied_models.model(name))
    (runtime,) = witnesses(tmp_path / "x.tflite", 120)
    assert "failed" not in runtime.says
