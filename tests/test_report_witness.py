"""The witnesses: real ones on files that they take, and on files that they do not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from msd.graph import tflite
from msd.measure.report import witness
from msd.measure.report.witness import witnesses
from tests import tiny_models
from tests.int8_layers import save_layer
from tests.old_runtime import needs_old_runtime

pytestmark = needs_old_runtime


def test_both_are_content_with_a_plain_file(tmp_path: Path) -> None:
    runtime, analyzer = witnesses(tiny_models.save("whole", tmp_path), 120)
    assert (runtime.name, runtime.ok, runtime.says) == (
        "tflite-runtime 2.14.0, CPU",
        True,
        "loads and runs it",
    )
    assert (analyzer.ok, analyzer.says) == (True, "warns of nothing")


def test_the_old_runtime_objects_to_what_it_does_not_know(tmp_path: Path) -> None:
    model = tflite.read(tiny_models.save("cut_off", tmp_path))
    model.main.ops[-1].version = 99
    tflite.write(model, tmp_path / "newer.tflite")
    runtime, _ = witnesses(tmp_path / "newer.tflite", 120)
    assert not runtime.ok
    assert runtime.says == "is too old for MUL of version 99"


def test_results_are_compared_with_litert_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One scale for each channel, of which tflite-runtime 2.14 takes 0; as if nobody had known."""
    monkeypatch.setattr(witness, "misread_weights", lambda model: None)
    runtime, _ = witnesses(save_layer(tmp_path, "FULLY_CONNECTED", 12), 120)
    assert not runtime.ok
    assert re.fullmatch(r"loads and runs it, but its results are -?\d+\.\d dB from LiteRT's", runtime.says)


def test_warnings_of_the_analyzer_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words of its source: TensorFlow 2.21's own was not seen to warn of anything."""
    lines = [
        "GPU COMPATIBILITY WARNING: Not supported op GATHER_ND",
        "GPU COMPATIBILITY WARNING: OP is supported, but tensor type/shape isn't compatible.",
        "GPU COMPATIBILITY WARNING: Subgraph#0 has GPU delegate compatibility issues at nodes 1, 2",
    ]
    monkeypatch.setattr(witness, "ANALYZE", f"print({chr(10).join(lines)!r})")
    _, analyzer = witnesses(tiny_models.save("whole", tmp_path), 120)
    assert (analyzer.ok, analyzer.says) == (False, "warns: Not supported op GATHER_ND and 1 more")


def test_one_that_is_lost_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_models.save("whole", tmp_path)
    assert witnesses(path, 0.01)[0].says == "was stopped after 0.01 s"
    monkeypatch.setattr(witness, "RUN", "import os; os.abort()")
    monkeypatch.setattr(witness, "ANALYZE", "raise SystemExit('no words to say')")
    runtime, analyzer = witnesses(path, 60)
    assert runtime.says == "crashed with signal 6"
    assert analyzer.says == "failed: no words to say"


def test_what_is_not_installed_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "installed_versions", lambda *names: {})
    assert witnesses(tmp_path / "any.tflite", 1) == ()
