from __future__ import annotations

from pathlib import Path

import pytest

from msd import tflite
from tests import portraits, varied_models

NAMES = sorted(varied_models.MODELS)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_read_and_written_holds_the_same(name: str, tmp_path: Path) -> None:
    content = varied_models.model(name)
    tflite.write(tflite.parse(content), tmp_path / "again.tflite")
    again = (tmp_path / "again.tflite").read_bytes()
    assert portraits.of_file(again) == portraits.of_file(content)
    assert portraits.of_model(tflite.parse(again)) == portraits.of_model(tflite.parse(content))
