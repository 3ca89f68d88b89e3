"""msd-convert of one file: the networks are, byte for byte, those of a folder in diffusers layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from msd.bundle import open_bundle
from msd.cli.convert import convert
from msd.run.runtime.ddim import Ddim
from msd.run.runtime.tokenizer import open_tokenizer
from scripts.make_random_checkpoint import FORMATS, Random
from tests import single_files
from tests.checkpoints import vary

TINY = vary(
    single_files.SECOND,
    text_encoder={
        "hidden_act": "quick_gelu",
        "hidden_size": 64,
        "num_attention_heads": 1,
        "num_hidden_layers": 1,
    },
    unet={
        "attention_head_dim": 8,
        "block_out_channels": [32, 64],
        "cross_attention_dim": 64,
        "sample_size": 64,
        "use_linear_projection": False,
    },
    scheduler={"prediction_type": "epsilon"},
)
"""A Stable Diffusion 1.x of few layers."""

SIZE = ("--height", 16, "--width", 16)
SOURCES = {"diffusers": "folder", "single-file": "one.safetensors", "ckpt": "one.ckpt"}


def run(*args: Any) -> Result:
    return CliRunner().invoke(convert, [str(a) for a in args])


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Result]]:
    """A folder with each source and its bundle, and what msd-convert said."""
    folder, results = tmp_path_factory.mktemp("converted"), {}
    for format, name in SOURCES.items():
        FORMATS[format](folder / name, TINY, Random(3, "float16"))
        results[format] = run(folder / name, "-o", folder / format, *SIZE)
    return folder, results


def test_every_format_makes_the_same_files(converted: tuple[Path, dict[str, Result]]) -> None:
    folder, results = converted
    bundles = {format: open_bundle(folder / format, verify=True).manifest for format in SOURCES}
    assert {result.exit_code for result in results.values()} == {0}, results
    hashes = [{n: part.sha256 for n, part in bundle.components.items()} for bundle in bundles.values()]
    assert len(hashes[0]) == 3
    assert hashes[0] == hashes[1] == hashes[2]
    assert {bundle.source.kind for bundle in bundles.values()} == {"diffusers", "single file"}
    assert list(bundles["ckpt"].source.files) == ["one.ckpt"]


def test_a_unet_without_a_middle_block_is_the_same_from_either_format(tmp_path: Path) -> None:
    """As BK-SDM-Tiny's and tiny-sd's: attention on every level, and no blocks between down and up."""
    unet = {
        "down_block_types": ["CrossAttnDownBlock2D"] * 2,
        "up_block_types": ["CrossAttnUpBlock2D"] * 2,
        "mid_block_type": None,
    }
    hashes = []
    for format, name in (("diffusers", "folder"), ("single-file", "one.safetensors")):
        FORMATS[format](tmp_path / name, vary(TINY, unet=unet), Random(3, "float16"))
        done = run(tmp_path / name, "-o", tmp_path / format, *SIZE, "--component", "unet")
        assert done.exit_code == 0, done.output
        hashes.append(open_bundle(tmp_path / format).manifest.components["unet"].sha256)
    assert hashes[0] == hashes[1]


def test_what_else_a_bundle_needs_comes_too(converted: tuple[Path, dict[str, Result]]) -> None:
    folder, results = converted
    for format in ("single-file", "ckpt"):
        assert open_tokenizer(folder / format / "tokenizer").encode("a cat").tolist()[:4] == [
            49406,
            320,
            2368,
            49407,
        ]
        said = json.loads((folder / format / "scheduler" / "scheduler_config.json").read_text())
        assert said["prediction_type"] == "epsilon"
        assert said["_prediction_type_because"] in results[format].stdout
        assert Ddim.from_config(said).steps_offset == 1
    assert "the U-Net predicts" not in results["diffusers"].stdout


def test_what_it_predicts_can_be_changed_afterwards(converted: tuple[Path, dict[str, Result]]) -> None:
    folder, _ = converted
    before = open_bundle(folder / "ckpt").manifest
    result = run(folder / "one.ckpt", "-o", folder / "ckpt", *SIZE, "--prediction-type", "v_prediction")
    assert result.exit_code == 0, result.output
    assert "the U-Net predicts v_prediction: as asked for" in result.stdout
    after = open_bundle(folder / "ckpt", verify=True).manifest
    assert after.components == before.components
    assert after.scheduler["prediction_type"] == "v_prediction"
    said = json.loads((folder / "ckpt" / "scheduler" / "scheduler_config.json").read_text())
    assert said == after.scheduler


def test_a_refusal_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.ckpt").write_bytes(b"no zip file")
    result = run(tmp_path / "a.ckpt", "-o", tmp_path / "out")
    assert result.exit_code == 1
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert "a.ckpt is not a readable torch checkpoint: it is not a complete zip file" in line
    assert not (tmp_path / "out").exists()
