"""The public API: the examples of docs/api.md, what is public, and that importing it is light."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click import Option

import msd
from msd.api import ConversionOptions
from msd.cli.convert import convert as command
from msd.errors import BadBundle, BadCheckpoint, BadConfig
from scripts import draw_options

PAGE = Path(__file__).parent.parent / "docs" / "api.md"


def test_the_examples_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One after the other, in one session, as a reader would run them."""
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    session: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), session)
    assert len(examples) == 5
    assert session["image"].pixels.shape == (128, 128, 3)
    assert session["image"].pixels.dtype == np.uint8
    bundle, report, verdict = (session[name] for name in ("bundle", "report", "verdict"))
    assert [p.delegated for p in report.predictions] == [report.operations] * 2
    assert verdict.delegated == verdict.operations == bundle.component("text_encoder").operations
    assert verdict.psnr > 60
    assert "2015 of 2015" in capsys.readouterr().out.replace("litert-gpu ", "")


def test_only_the_listed_names_are_public() -> None:
    assert set(dir(msd)) == {*msd.__all__, "__version__"}
    for name in msd.__all__:
        assert getattr(msd, name).__doc__
    with pytest.raises(AttributeError, match=r"no attribute 'painter'; docs/api\.md"):
        msd.painter  # noqa: B018


def test_importing_msd_imports_nothing_heavy() -> None:
    code = "import sys, msd; print(sorted({'numpy', 'tensorflow', 'click', 'keras'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_options_are_those_of_the_command() -> None:
    of_the_command = {p.name for p in command.params if isinstance(p, Option)}
    of_the_api = {each.name for each in fields(ConversionOptions)}
    only_for_the_terminal = {"output", "prune_report", "dry_run", "explain", "as_json", "help"}
    assert of_the_api == of_the_command - only_for_the_terminal


def test_the_table_in_the_documents_is_made_from_them() -> None:
    page = draw_options.PAGE.read_text("utf-8")
    assert draw_options.drawn(page) == page, "python -m scripts.draw_options writes it"
    assert draw_options.table().count("\n") == len(fields(ConversionOptions)) + 1


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="does not exist"):
        msd.convert(tmp_path / "nothing", tmp_path / "out")
    with pytest.raises(BadConfig, match="no rewrite is called"):
        msd.convert(None, tmp_path / "out", without=["nothing"])
    with pytest.raises(BadConfig, match="a calibration is for pruning and for rounding"):
        msd.convert(None, tmp_path / "out", recipe="float16", calibration=tmp_path)
    with pytest.raises(BadConfig, match="no device is called"):
        msd.predict(tmp_path / "unet.tflite", device="toaster")
    with pytest.raises(BadBundle, match=r"cannot read .*manifest\.json"):
        msd.generate(tmp_path, "a cat")
    assert not (tmp_path / "out").exists()
