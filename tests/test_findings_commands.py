"""Findings of an attack on commands, by number: numbers that mean nothing, names that fake a line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from msd.bounds import MOST_GUIDANCE, MOST_SEED
from msd.bundle import load_manifest, open_bundle
from msd.cli import msd
from msd.cli.plain import LONGEST, escape, plain, plain_json
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.job import open_job
from msd.conversion.settings import Settings
from msd.errors import BadBundle, BadCalibration, BadCheckpoint, BadConfig, BadImage, NotFinite
from msd.graph.ir import NUMPY
from msd.run.runners.runner import Conditions
from msd.run.runtime import initial_image
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from msd.tensor_spec import DTYPES
from tests.app_bundles import draw_with_sums, write_bundle

HOSTILE = "a\nerror: all is well\x1b[2J\u202e\x9b31m"


# 7, 8, 16: numbers of commands and of callers


@pytest.mark.parametrize(
    "words",
    [
        *(["--guidance", value] for value in ("nan", "inf", "-inf", "1e39", "-1")),
        *(["--strength", value] for value in ("nan", "inf", "0", "1.01")),
        *(["--threads", value] for value in ("0", "100000", "99999999999", "9" * 400)),
        *(["--images", value] for value in ("0", "1000000000")),
        *(["--steps", value] for value in ("0", "1000000000")),
        *(["--seed", value] for value in ("-1", str(2**63), "9" * 4000)),
        ["--prompt", "x" * 100_000],
    ],
    ids=lambda words: "=".join(words)[:40],
)
def test_7_8_16_numbers_that_mean_nothing(words: list[str]) -> None:
    done = CliRunner().invoke(msd, ["generate", "demo", "--prompt", "a cat", "-o", "x.png", *words])
    assert done.exit_code == 2
    assert words[0] in done.stderr
    assert max(map(len, done.stderr.splitlines())) < 1200


@pytest.mark.parametrize("guidance", [float("nan"), float("inf"), 1e39, MOST_GUIDANCE * 2])
def test_7_a_request_with_impossible_guidance(guidance: float) -> None:
    with pytest.raises(BadConfig, match=r"guidance .* should be a number up to 1000"):
        Request("a", guidance=guidance)


@pytest.mark.parametrize("seed", [-1, MOST_SEED + 1])
def test_7_a_request_with_an_impossible_seed(seed: int) -> None:
    with pytest.raises(BadConfig, match="a seed should be a whole number from 0"):
        Request("a", seed=seed)


@pytest.mark.parametrize("threads", [0, 100_000])
def test_8_threads_that_would_crash(threads: int) -> None:
    with pytest.raises(BadConfig, match="1 to 1024 are supported"):
        Conditions(threads=threads)


@pytest.mark.parametrize(
    ("network", "what"),
    [
        ("text_encoder", "the output of the text encoder has"),
        ("unet", "the output of the U-Net in step 1 of 2 has"),
        ("vae_decoder", "the image of the VAE decoder has"),
    ],
)
def test_7_a_result_that_is_no_number_stops_the_image(
    network: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_with_sums(monkeypatch)

    class Spoilt:
        def __init__(self, runner: Any) -> None:
            self.runner = runner

        def run(self, inputs: Any) -> Any:
            return {name: value * np.float32("nan") for name, value in self.runner.run(inputs).items()}

    bundle = open_bundle(write_bundle(tmp_path / "bundle"))
    pipeline = Pipeline(bundle, wrap=lambda name, runner: Spoilt(runner) if name == network else runner)
    with pytest.raises(NotFinite, match=what):
        pipeline.generate("a", steps=2)


# 9, 12, 14, at conversion: before anything is traced


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A copy of the demo checkpoint, whose weights are links."""
    import shutil

    from msd.models.demo import CHECKPOINT

    def link(source: str, target: str) -> None:
        if source.endswith(".safetensors"):
            Path(target).symlink_to(source)
        else:
            shutil.copy(source, target)

    shutil.copytree(CHECKPOINT, tmp_path / "checkpoint", copy_function=link)
    return tmp_path / "checkpoint"


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("unet/config.json", {"layers_per_block": 16}, "has no down_blocks.0.resnets.15, which its config"),
        ("unet/config.json", {"layers_per_block": 64}, "an integer from 1 to 16 was expected"),
        ("unet/config.json", {"transformer_layers_per_block": 9}, "transformer_blocks.8"),
        ("vae/config.json", {"layers_per_block": 12}, "has no encoder.down_blocks.0.resnets.11"),
        ("text_encoder/config.json", {"num_hidden_layers": 40}, "has no encoder.layers.39"),
        ("unet/config.json", {"norm_eps": 10**400}, "its norm_eps is an integer of 1329 bits"),
        (
            "unet/config.json",
            {"norm_eps": 10**30},
            "norm_eps = 1000000000000000000000000000000, but a number",
        ),
        ("vae/config.json", {"scaling_factor": 1e9}, "scaling_factor = 1000000000.0, but a number"),
        ("scheduler/scheduler_config.json", {"beta_start": "x"}, "beta_start is 'x', not of type number"),
        ("scheduler/scheduler_config.json", {"x": "\ud800"}, "its x is text that is not Unicode"),
        ("tokenizer/tokenizer_config.json", {"model_max_length": "x"}, "model_max_length is 'x'"),
    ],
)
def test_9_11_12_14_refused_before_tracing(
    name: str, changes: dict[str, Any], message: str, checkpoint: Path
) -> None:
    path = checkpoint / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(BadCheckpoint, match=re.escape(message)):
        open_job(checkpoint, Settings((), find_recipe("float32")))


# 13, 15: what is printed


def test_13_text_of_files_is_one_line_without_control() -> None:
    assert plain(HOSTILE) == r"a\nerror: all is well\x1b[2J\u202e\x9b31m"
    assert plain("naïve 日本 \ud800") == r"naïve 日本 \ud800"
    assert len(plain("x" * 10**6)) < LONGEST + 50
    assert escape("[red]x[/]") == r"\[red]x\[/]"


def test_13_json_says_the_same() -> None:
    text = json.dumps({"name": HOSTILE, "é": "日本"}, ensure_ascii=False)
    assert json.loads(plain_json(text)) == json.loads(text)
    assert plain_json(text).isprintable()


@pytest.mark.parametrize(
    "command", [["generate", "--prompt", "a", "-o", "x.png"], ["report"], ["convert", "-o", "x"]]
)
def test_13_a_path_cannot_fake_a_line(command: list[str], tmp_path: Path) -> None:
    name, *others = command
    done = CliRunner().invoke(msd, [name, str(tmp_path / HOSTILE), *others])
    assert done.exit_code in (1, 2)
    assert "\x1b" not in done.stderr
    assert not any(line.startswith("error: all") for line in done.stderr.splitlines())


def test_15_letters_that_a_terminal_lacks(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    command = [sys.executable, "-c", "from msd.cli import msd; msd()", "report"]
    file = Path(__file__).parent / "corpus" / "seeds" / "tflite" / "whole.tflite"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*command, file], capture_output=True, env=environment)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert done.stdout.isascii()


def test_15_the_types_of_a_manifest_are_those_of_tensors() -> None:
    assert set(DTYPES) == set(NUMPY.values())


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("components", "unet", "inputs", 0, "dtype"), "𝒳", "has the dtype '𝒳'"),
        (("components", "unet", "inputs", 0, "shape"), [1, -4], "has the shape"),
        (("components", "unet", "inputs", 0, "shape"), [2**20, 2**20], "more than"),
        (("components", "unet", "inputs", 0, "shape"), [1] * 9, "has the shape"),
        (("images", "steps"), 10**9, "images take 1000000000 steps"),
        (("images", "guidance"), float("inf"), "images take 20 steps and guidance inf"),
        (("configuration", "unet", "cosine_first"), "x", "cosine_first of unet is 'x'"),
        (("configuration", "unet", "frequency_shift"), 1e30, "frequency_shift of unet is 1e+30"),
        (("scheduler", "beta_start"), float("nan"), "NaN"),
    ],
)
def test_15_20_a_manifest_beyond_bounds(place: Any, value: Any, message: str, tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "bundle") / "manifest.json"
    manifest = json.loads(path.read_text())
    within = manifest
    for key in place[:-1]:
        within = within[key]
    within[place[-1]] = value
    path.write_text(json.dumps(manifest))
    with pytest.raises(BadBundle, match=re.escape(message)):
        load_manifest(path)


# Beside the findings


def test_an_image_of_too_many_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    Image.new("RGB", (20, 20)).save(tmp_path / "x.png")
    monkeypatch.setattr(initial_image, "MOST_PIXELS", 399)
    with pytest.raises(BadImage, match="20×20 pixels, and at most 399"):
        initial_image.open_initial_image(tmp_path / "x.png", 8, 8)


def test_inputs_that_unpack_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from msd.compress.calibration import inputs

    np.savez_compressed(tmp_path / "x.npz", a=np.zeros(10_000))
    monkeypatch.setattr(inputs, "MOST_BYTES", 10_000)
    with pytest.raises(BadCalibration, match="at most 10000 are read"):
        inputs.read_arrays(tmp_path / "x.npz")
