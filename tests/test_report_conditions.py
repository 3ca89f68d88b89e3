"""The conditions that end `delegation-report` with exit code 3, beside the findings of single operations."""

from __future__ import annotations

from pathlib import Path

import pytest

from msd.graph import tflite
from tests import tiny_models
from tests.test_cli_report import call


@pytest.fixture
def without_operations(tmp_path: Path) -> Path:
    model = tflite.read(tiny_models.save("whole", tmp_path))
    model.main.ops.clear()
    model.main.outputs[:] = model.main.inputs
    for signature in model.main.signatures:
        signature.outputs = dict(zip(signature.outputs, model.main.outputs, strict=True))
    tflite.write(model, tmp_path / "empty.tflite")
    return tmp_path / "empty.tflite"


def test_a_file_without_operations_has_nothing_to_delegate(without_operations: Path) -> None:
    result = call("--no-run", without_operations)
    assert result.exit_code == 3
    assert "✘  empty.tflite  litert-gpu, adreno-740  no operation that a GPU could run" in result.stdout
    assert "✔" not in result.stdout
    assert result.stderr.endswith("Exit code 3 for: rejected.\n")
    assert (
        "| ✘ no operation that a GPU could run |"
        in call("--no-run", "--format", "markdown", without_operations).stdout
    )
    assert "0 of 1 file:" in call("--no-run", "--format", "html", without_operations).stdout
