"""A manifest that lists other inputs or outputs than its files have is refused by what reads it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from msd.bundle import open_bundle
from msd.cli import msd
from msd.errors import BadBundle
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.ports import require_listed_ports, require_ports
from msd.tensor_spec import TensorSpec


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(msd, [*map(str, arguments)], prog_name="msd")


def edited(folder: Path, copy: Path, component: str, side: str, **change: Any) -> Path:
    """Return a copy of a bundle, in whose manifest the first tensor on one side of a component is changed."""
    shutil.copytree(folder, copy)
    path = copy / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["components"][component][side][0] |= change
    path.write_text(json.dumps(manifest))
    return copy


EDITS: list[tuple[str, str, dict[str, Any], str]] = [
    ("unet", "inputs", {"shape": [1, 8, 8, 4]},
     r"the input latent of .*unet\.tflite is float32\[1, 16, 16, 4\], and manifest\.json says "
     r"float32\[1, 8, 8, 4\]; convert the checkpoint again"),
    ("unet", "outputs", {"shape": [2, 16, 16, 4]}, r"the output noise of .* says float32\[2, 16, 16, 4\]"),
    ("text_encoder", "inputs", {"shape": [2, 77]}, r"int32\[1, 77\], and manifest\.json says int32\[2, 77\]"),
    ("vae_decoder", "outputs", {"shape": [1, 128, 128, 4]}, r"float32\[1, 128, 128, 4\]"),
    ("vae_decoder", "inputs", {"dtype": "float16"}, r"float32\[1, 16, 16, 4\], .* float16\[1, 16, 16, 4\]"),
    ("unet", "inputs", {"layout": "NCHW"},
     r"the layout of the input latent of .*unet\.tflite is NHWC, and manifest\.json says NCHW; convert"),
    ("unet", "outputs", {"layout": "NCHW"}, r"the layout of the output noise of .* is NHWC, .* says NCHW"),
    ("text_encoder", "inputs", {"table_length": 49408},
     r"the table_length of the input tokens of .*text_encoder\.tflite is 666, and manifest\.json says 49408"),
    ("unet", "inputs", {"table_length": 9}, r"the table_length of the input latent .* is None, .* says 9"),
]  # fmt: skip


@pytest.mark.parametrize(("component", "side", "change", "why"), EDITS)
def test_an_edited_manifest_is_refused(
    component: str, side: str, change: dict[str, Any], why: str, demo_int8: Path, tmp_path: Path
) -> None:
    bundle = open_bundle(edited(demo_int8, tmp_path / "edited", component, side, **change))
    with pytest.raises(BadBundle, match=why):
        require_listed_ports(bundle)
    with pytest.raises(BadBundle, match=why):
        Pipeline(bundle).generate("a star", steps=1)


@pytest.mark.parametrize("command", ["export-android", "export-web", "export-files"])
def test_no_export_takes_it(command: str, demo_int8: Path, tmp_path: Path) -> None:
    folder = edited(demo_int8, tmp_path / "edited", "vae_decoder", "outputs", shape=[1, 128, 128, 4])
    result = run(command, folder, "-o", tmp_path / "app")
    assert result.exit_code == 1
    assert "error: the output image of " in result.stderr
    assert "says float32[1, 128, 128, 4]" in result.stderr
    assert not (tmp_path / "app").exists()


def test_another_number_of_operations_is_refused_by_exports(demo_int8: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(demo_int8, tmp_path / "edited")
    manifest = json.loads((folder / "manifest.json").read_text())
    count = manifest["components"]["unet"]["operations"]
    manifest["components"]["unet"]["operations"] = count + 1
    (folder / "manifest.json").write_text(json.dumps(manifest))
    result = run("export-files", folder, "-o", tmp_path / "app")
    assert result.exit_code == 1
    assert f"unet.tflite is {count}, and manifest.json says {count + 1}" in result.stderr


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("text", "float32[1], and manifest.json says nothing of it"),
        ("tokens", "not there, and manifest.json says int32[1, 77]"),
    ],
)
def test_other_names_are_refused(name: str, why: str, demo_int8: Path) -> None:
    bundle = open_bundle(demo_int8)
    ports = {"text": TensorSpec("text", (1,), "float32")}
    if name == "tokens":
        ports = {}
    encoder = bundle.component("text_encoder")
    with pytest.raises(BadBundle, match=re.escape(f"the input {name} of encoder.tflite is {why}")):
        require_ports(Path("encoder.tflite"), encoder, ports, {})


def test_what_was_converted_is_taken(demo_int8: Path) -> None:
    require_listed_ports(open_bundle(demo_int8))


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        (
            "height",
            256,
            r"the height of the images of .*unet\.tflite, decoded, is 128, and manifest\.json says 256",
        ),
        (
            "width",
            64,
            r"the width of the images of .*unet\.tflite, decoded, is 128, and manifest\.json says 64",
        ),
        ("batch", 2, r"the batch of .*unet\.tflite is 1, and manifest\.json says 2; convert"),
        (
            "prompt_chunks",
            2,
            r"the prompt_chunks of .*unet\.tflite are 1, and manifest\.json says 2; convert",
        ),
    ],
)
def test_other_sizes_than_the_networks_have_are_refused(
    field: str, value: int, why: str, demo_int8: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(demo_int8, tmp_path / "edited")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["configuration"][field] = value
    (folder / "manifest.json").write_text(json.dumps(manifest))
    bundle = open_bundle(folder)
    with pytest.raises(BadBundle, match=why):
        require_listed_ports(bundle)
    with pytest.raises(BadBundle, match=why):
        Pipeline(bundle)
