"""The public API: the examples of docs/api.md, what is public, and that importing it is light."""

from __future__ import annotations

import os
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
from msd.errors import BadBundle, BadCheckpoint, BadConfig, MsdError
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


def test_a_type_checker_reads_the_types(tmp_path: Path) -> None:
    """Of the installed package, which the file py.typed says; without it all of msd is Any."""
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    shown = ("bundle", "unet", "image.pixels", "report", "verdict.psnr")
    path = tmp_path / "examples.py"
    path.write_text("".join([*examples, *(f"reveal_type({name})\n" for name in shown)]), "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), path.name]
    found = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PAGE.parents[1])},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout
    types = re.findall(r'Revealed type is "([\w.]+)', found.stdout)
    assert types == [
        "msd.bundle.Bundle",
        "msd.bundle.ConvertedFile",
        "numpy.ndarray",
        "msd.measure.report.report.FileReport",
        "float",
    ]


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
    only_for_the_terminal = {"output", "prune_report", "dry_run", "explain", "as_json", "version", "help"}
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


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"prompt": None}, "prompt is None; a text was expected"),
        ({"negative_prompt": b"fox"}, "negative_prompt is b'fox'; a text was expected"),
        ({"guidance": "7"}, "guidance is '7'; a number or None was expected"),
        ({"scheduler": 3}, "scheduler is 3; a text or None was expected"),
        ({"controls": "canny=a.png"}, "controls is 'canny=a.png'; a list of texts was expected"),
        ({"controls": ["a.png"]}, "should be NAME=FILE"),
        ({"control_from": 0.5}, "control_from, control_until and from_photo are of pictures that steer"),
        ({"control_until": 0.5}, "control_from, control_until and from_photo are of pictures that steer"),
        ({"from_photo": True}, "control_from, control_until and from_photo are of pictures that steer"),
        ({"from_photo": True, "controls": ["a=a.png", "b=b.png"]}, "there are several controls"),
        ({"control_from": 0.5, "controls": ["a=a.png:1:0.1"]}, "pictures that name no part of the steps"),
        ({"control_until": 0.5, "controls": ["a=a.png:1:0:1"]}, "pictures that name no part of the steps"),
        ({"scheduler": "foo"}, "no scheduler is called 'foo'; there are ddim"),
        ({"fit": "stretch"}, "fit is of a picture; give an image, or controls"),
    ],
)
def test_what_an_image_cannot_use_is_refused(
    given: dict[str, Any], sentence: str, bundle_folder: Path
) -> None:
    """As on the command line, where these are options."""
    with pytest.raises(MsdError, match=re.escape(sentence)) as raised:
        msd.generate(bundle_folder, **{"prompt": "fox", "steps": 1, **given})
    assert "scheduler_config.json" not in str(raised.value)


def test_a_strength_is_a_number(bundle_folder: Path, tmp_path: Path) -> None:
    from msd.run.runtime.initial_image import InitialImage
    from msd.run.runtime.request import Request

    image = InitialImage(np.zeros((1, 32, 48, 3), np.float32), None, "")
    with pytest.raises(BadConfig, match=r"strength is '0\.5'; a number was expected"):
        Request("fox", image=image, strength="0.5")  # type: ignore[arg-type]


def test_an_empty_source_is_not_the_demo(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="source is ''; a path or None was expected"):
        msd.convert("", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_paths_may_be_texts() -> None:
    """Each option that is a path, or has one in it."""
    from msd.conversion.choices import conversion_settings

    made = conversion_settings(
        (),
        lora=[("a.safetensors", 0.5)],
        vae=["vae"],
        preview_vae="taesd",
        upscaler="x2.pth",
        controlnets=[("canny", None)],
        embeddings=[("cat.pt", "<cat>")],
    )
    assert (made.lora, made.vae) == (((Path("a.safetensors"), 0.5),), (Path("vae"),))
    assert (made.preview_vae, made.upscaler) == (Path("taesd"), Path("x2.pth"))
    assert made.controlnets == ((Path("canny"), None),)
    assert made.embeddings == ((Path("cat.pt"), "<cat>"),)
