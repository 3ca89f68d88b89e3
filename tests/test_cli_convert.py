"""msd-convert as a user meets it: what it writes, what it refuses, and that nothing is half-written."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors.numpy import load_file, save_file

from msd.bundle import open_bundle
from msd.cli.convert import convert
from msd.compress.encoding.recipe import shipped
from msd.graph import tflite
from tests import checkpoints
from tests.tiny_disk import tiny_disk


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    checkpoints.write(folder, checkpoints.TINY)
    return folder


@pytest.fixture
def copy(source: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(source, tmp_path / "copy"))


def run(*args: Any) -> Result:
    return CliRunner().invoke(convert, [str(a) for a in args])


def assert_refused(result: Result, code: int, *words: str) -> None:
    assert result.exit_code == code, result.output
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("error: " if code == 1 else "Error: ")
    for word in words:
        assert word in last


def assert_no_debris(folder: Path, *allowed: str) -> None:
    assert sorted(p.name for p in folder.iterdir()) == sorted(allowed)


def test_everything_is_written_and_listed(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(source, "-o", out, "--explain")
    assert result.exit_code == 0, result.output
    names = {
        "text_encoder.tflite",
        "unet.tflite",
        "vae_decoder.tflite",
        "manifest.json",
        "tokenizer",
        "scheduler",
    }
    assert_no_debris(out, *names)
    manifest = open_bundle(out, verify=True).manifest
    assert manifest.configuration.height == manifest.configuration.width == 32
    for name, part in manifest.components.items():
        graph = tflite.read(out / part.file).main
        assert len(graph.ops) == part.operations
        ledger = manifest.ledger[name]
        assert ledger.after == part.operations
        assert ledger.before + sum(effect.ops for effect in ledger.rules) == ledger.after
    assert "lower_group_norm" in result.stdout
    assert "peak memory" in result.stdout
    assert_no_debris(tmp_path, "out")


def test_json_is_the_manifest(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(source, "-o", out, "--json", "--component", "vae_decoder")
    assert json.loads(result.stdout) == json.loads((out / "manifest.json").read_text())
    assert list(json.loads(result.stdout)["components"]) == ["vae_decoder"]


def test_dry_run_writes_nothing(source: Path, tmp_path: Path) -> None:
    result = run(source, "-o", tmp_path / "out", "--dry-run", "--height", "64", "--width", "32")
    assert result.exit_code == 0
    assert "32x64 pixels" in result.stdout
    assert_no_debris(tmp_path)


@pytest.mark.parametrize("recipe", shipped())
def test_two_runs_give_the_same_bytes(source: Path, tmp_path: Path, recipe: str) -> None:
    outs = [tmp_path / "a", tmp_path / "b"]
    for out in outs:
        assert run(source, "-o", out, "--recipe", recipe, "--component", "unet").exit_code == 0
    first, second = ((out / "unet.tflite").read_bytes() for out in outs)
    assert first == second


@pytest.mark.parametrize("recipe", ["gpu-w8", "gpu-mixed"])
def test_the_number_of_threads_changes_no_byte(source: Path, tmp_path: Path, recipe: str) -> None:
    for jobs in (1, 5):
        result = run(source, "-o", tmp_path / str(jobs), "--recipe", recipe, "--jobs", jobs)
        assert result.exit_code == 0, result.output
    for name in ("text_encoder", "unet", "vae_decoder"):
        one, five = ((tmp_path / jobs / f"{name}.tflite").read_bytes() for jobs in ("1", "5"))
        assert one == five


def test_progress_is_in_bytes_and_bytes_a_second(source: Path, tmp_path: Path) -> None:
    said = run(source, "-o", tmp_path / "out").stderr
    assert re.search(r"unet +\S+ done +[\d:]+ ([\d.]+) of \1 MB, \d+ MB/s", said), said


def test_size_and_batch_are_as_asked(source: Path, tmp_path: Path) -> None:
    args = ("--height", "64", "--width", "48", "--batch", "2", "--component", "unet")
    assert run(source, "-o", tmp_path / "out", *args).exit_code == 0
    inputs = {i.name: i.shape for i in open_bundle(tmp_path / "out").manifest.components["unet"].inputs}
    assert inputs["latent"] == (2, 32, 24, 4)


def test_a_device_is_named_or_described(source: Path, tmp_path: Path) -> None:
    """The one described has textures so small that convolutions must be cut; the one named has none."""
    path = tmp_path / "small.toml"
    path.write_text("image2d_height = 40\nimage2d_width = 40\n")
    for device, cut in ((path, True), ("mali-valhall", False)):
        result = run(source, "-o", tmp_path / "out", "--component", "unet", "--device", device, "--force")
        assert result.exit_code == 0, result.output
        ledger = open_bundle(tmp_path / "out").manifest.ledger["unet"]
        fired = next(effect.fired for effect in ledger.rules if effect.rule == "serialize_conv")
        assert (fired > 0) is cut


def test_a_rewrite_can_be_switched_off(source: Path, tmp_path: Path) -> None:
    args = ("--without", "clip_gelu", "--component", "text_encoder")
    assert run(source, "-o", tmp_path / "out", *args).exit_code == 0
    assert "GELU" in {op.kind for op in tflite.read(tmp_path / "out" / "text_encoder.tflite").main.ops}


def test_networks_that_a_forced_conversion_removes_are_said(source: Path, tmp_path: Path) -> None:
    """Only with it are they removed, and only where the folder's other networks are replaced too."""
    out, smaller = tmp_path / "out", ("--recipe", "float16", "--force")
    assert run(source, "-o", out, "--also", "vae_encoder").exit_code == 0
    kept = run(source, "-o", out, "--force")
    assert (kept.exit_code, (out / "vae_encoder.tflite").exists()) == (0, True)
    assert "no longer in" not in kept.stderr
    removed = run(source, "-o", out, *smaller, "--json")
    assert (removed.exit_code, (out / "vae_encoder.tflite").exists()) == (0, False)
    assert f"warning: no longer in {out}, for this conversion" in removed.stderr
    assert "as the one before did: vae_encoder.tflite\n" in removed.stderr
    assert "remarks" not in json.loads(removed.stdout)["conversion"]


def test_existing_results_are_kept_unless_forced(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    assert_refused(run(source, "-o", out), 1, "not empty", "--force")
    assert_no_debris(out, "mine.txt")
    assert run(source, "-o", out, "--force", "--component", "vae_decoder").exit_code == 0
    assert (out / "mine.txt").read_text() == "mine"


def test_the_checkpoint_itself_is_not_written_to(copy: Path) -> None:
    """By no name of it, and not when forced: its tokenizer and its scheduler would be replaced."""
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    (copy.parent / "link").symlink_to(copy)
    for out in (copy, f"{copy}/unet/..", copy.parent / "link"):
        assert_refused(run(copy, "-o", out, "--force"), 1, "is the checkpoint to convert; give another")
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


def test_a_file_in_the_way(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    assert run(source, "-o", tmp_path / "out").exit_code == 2
    assert (tmp_path / "out").read_text() == "mine"


def test_wrong_usage_is_refused(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert_refused(run(source), 2)
    assert_refused(run(source, "-o", out, "--without", "no_such_rule"), 2)
    assert_refused(run(source, "-o", out, "--batch", "3"), 2)
    assert_refused(run(source, "-o", out, "--height", "33"), 1, "height", "multiple")
    assert_refused(run("", "-o", out), 2, "the name is empty")
    assert_refused(run(source, "-o", out, "--device", "adreno"), 2, "adreno-740, ", "mali-valhall")
    assert_no_debris(tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--component", "unet", "--clip-skip", "1"], "--clip-skip changes text_encoder, which"),
        (["--component", "text_encoder", "--prompt-chunks", "2"], "--prompt-chunks changes unet, which"),
        (["--component", "text_encoder", "--split"], "--split changes unet, which"),
        (["--component", "vae_decoder", "--prune", "15%"], "pruning changes unet, which"),
        (
            ["--gelu-clip", "8", "--without", "clip_gelu", "--without", "clip_gelu_slope"],
            "--gelu-clip does nothing: clip_gelu and clip_gelu_slope are switched off",
        ),
    ],
)
def test_what_does_nothing_is_said(options: list[str], said: str, tmp_path: Path) -> None:
    """On stderr and in the plan; the same options for the right component say nothing."""
    checkpoints.write(tmp_path, checkpoints.SD15)
    result = run(tmp_path, "-o", tmp_path / "out", *options, "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    (remark,) = json.loads(result.stdout)["remarks"]
    assert remark.startswith(said)
    assert result.stderr == f"warning: {remark}\n"
    if "--component" in options:
        both = run(tmp_path, "-o", tmp_path / "out", *options[2:], "--dry-run", "--json")
        assert (json.loads(both.stdout)["remarks"], both.stderr) == ([], "")


def test_the_manifest_keeps_what_did_nothing(source: Path, tmp_path: Path) -> None:
    options = ("--component", "text_encoder", "--prompt-chunks", "2", "--json")
    result = run(source, "-o", tmp_path / "out", *options)
    (remark,) = json.loads(result.stdout)["conversion"]["remarks"]
    assert f"warning: {remark}" in result.stderr
    assert open_bundle(tmp_path / "out").manifest.conversion.remarks == (remark,)


def test_tensors_that_nothing_reads_are_said_and_missing_ones_refused_in_the_plan(tmp_path: Path) -> None:
    """Once the network's structure is known, the plan knows what the conversion does."""
    checkpoints.write(tmp_path, checkpoints.SHALLOW)
    path = tmp_path / "unet" / "diffusion_pytorch_model.safetensors"
    whole = load_file(path)
    convert_unet = (tmp_path, "-o", tmp_path / "out", "--component", "unet", "--json")
    save_file({**whole, "ip_adapter.proj.weight": np.ones((3, 5), np.float32)}, path)
    done = run(*convert_unet)
    (remark,) = json.loads(done.stdout)["conversion"]["remarks"]
    assert remark == (
        "unet has no place for ip_adapter.proj.weight of unet/diffusion_pytorch_model.safetensors, which its"
        " configuration does not name"
    )
    planned = run(*convert_unet, "--dry-run")
    assert (json.loads(planned.stdout)["remarks"], planned.stderr) == ([remark], f"warning: {remark}\n")
    save_file({name: each for name, each in whole.items() if name != "conv_in.bias"}, path)
    assert "lacks conv_in.bias" in run(*convert_unet, "--dry-run").stderr
    save_file({**whole, "conv_in.bias": np.ones(7, np.float32)}, path)
    assert "conv_in.bias has the shape [7], but" in run(*convert_unet, "--dry-run").stderr


@pytest.mark.parametrize("useless", ["--explain", "--prune-report=report.json"])
def test_a_dry_run_explains_and_prunes_nothing(useless: str, source: Path, tmp_path: Path) -> None:
    result = run(source, "-o", tmp_path / "out", "--dry-run", useless)
    assert result.exit_code == 2
    assert f"{useless.partition('=')[0]} does nothing with --dry-run" in result.stderr


def test_not_to_refit_is_for_pruning(source: Path, tmp_path: Path) -> None:
    result = run(source, "-o", tmp_path / "out", "--no-refit")
    assert_refused(result, 1, "refitting is for pruning: leave out --no-refit")


def test_a_folder_that_cannot_be_written(source: Path) -> None:
    assert_refused(run(source, "-o", "/proc/nowhere/out"), 1, "/proc/nowhere/out", "written")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk(source: Path, tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", "200k") as disk:
        assert_refused(run(source, "-o", disk / "out"), 1, "no space left")
        assert_no_debris(disk)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_interrupted_run_leaves_nothing(
    number: signal.Signals, code: int, source: Path, tmp_path: Path
) -> None:
    script = "from msd.cli.convert import convert; convert()"
    command = [sys.executable, "-c", script, source, "-o", tmp_path / "out"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        while not (tmp_path / ".out.msd-part").exists():
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(number)
    assert running.returncode == code
    assert_no_debris(tmp_path)


def test_a_missing_component_is_refused(copy: Path, tmp_path: Path) -> None:
    shutil.rmtree(copy / "vae")
    assert_refused(run(copy, "-o", tmp_path / "out"), 1, "vae")


def test_missing_folder_and_wrong_folder(tmp_path: Path) -> None:
    assert_refused(run(tmp_path / "nowhere", "-o", tmp_path / "out"), 1, "nowhere")
    (tmp_path / "empty").mkdir()
    assert_refused(run(tmp_path / "empty", "-o", tmp_path / "out"), 1, "model_index.json")


def test_a_folder_that_is_converted_is_no_checkpoint(bundle_folder: Path, tmp_path: Path) -> None:
    refused = run(bundle_folder, "-o", tmp_path / "out")
    assert_refused(refused, 1, "is converted already", "give the checkpoint that it was made from")


def test_truncated_weights_are_refused(copy: Path, tmp_path: Path) -> None:
    file = copy / "unet" / "diffusion_pytorch_model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    assert_refused(run(copy, "-o", tmp_path / "out"), 1, str(file))
    assert_no_debris(tmp_path, "copy")


def edit_unet(copy: Path, name: str, change: Any) -> None:
    file = copy / "unet" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(file)
    tensors[name] = change(tensors[name])
    save_file(tensors, file)


def test_a_wrong_shape_is_refused(copy: Path, tmp_path: Path) -> None:
    edit_unet(copy, "conv_in.weight", lambda w: np.ascontiguousarray(w[:, :3]))
    assert_refused(run(copy, "-o", tmp_path / "out"), 1, "conv_in.weight", "[16, 4, 3, 3]", "[16, 3, 3, 3]")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers(copy: Path, tmp_path: Path, value: float) -> None:
    def spoil(w: Any) -> Any:
        spoilt = w.copy()
        spoilt.reshape(-1)[7] = value
        return spoilt

    edit_unet(copy, "mid_block.resnets.0.conv1.weight", spoil)
    assert_refused(run(copy, "-o", tmp_path / "out"), 1, "mid_block.resnets.0.conv1.weight")
    assert_no_debris(tmp_path, "copy")


def test_an_unknown_architecture_is_refused(copy: Path, tmp_path: Path) -> None:
    index = copy / "model_index.json"
    index.write_text(index.read_text().replace("StableDiffusionPipeline", "StableDiffusion3Pipeline"))
    assert_refused(run(copy, "-o", tmp_path / "out"), 1, "StableDiffusion3Pipeline")


def test_an_unsupported_setting_is_refused(copy: Path, tmp_path: Path) -> None:
    config = copy / "unet" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "class_embed_type": "timestep"}))
    assert_refused(run(copy, "-o", tmp_path / "out"), 1, "class_embed_type")


def test_recipes_are_listed() -> None:
    result = run("--recipe", "list")
    assert result.exit_code == 0
    names = [line.partition(":")[0] for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert names[0] == "gpu-w8 (the default)"
    assert sorted(["gpu-w8", *names[1:]]) == shipped()
    assert "int8 with a scale for each channel" in result.stdout


@pytest.mark.parametrize("options", [("--json", "--recipe", "list"), ("--recipe", "list", "--json")])
def test_recipes_are_listed_as_json(options: tuple[str, ...]) -> None:
    result = run(*options)
    recipes = json.loads(result.stdout)
    assert (result.exit_code, recipes[0]["name"]) == (0, "gpu-w8")
    assert sorted(each["name"] for each in recipes) == shipped()
    assert recipes[0]["description"].startswith("int8 with a scale for each channel")
    assert all(each["use"] for each in recipes)


def test_a_recipe_of_one_s_own(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('without = ["clip_gelu"]\n[[line]]\nstore = "int8"\nname = "mid_block.*"\n')
    args = ("-o", tmp_path / "out", "--component", "unet", "--recipe")
    assert run(source, *args, path).exit_code == 0
    graph = tflite.read(tmp_path / "out" / "unet.tflite").main
    assert "GELU" in {op.kind for op in graph.ops}
    assert {"INT8", "FLOAT32"} <= {t.dtype for t in graph.tensors() if t.data is not None}
    recipe = open_bundle(tmp_path / "out").manifest.configuration.recipe
    assert (recipe.name, len(recipe.sha256)) == ("mine", 64)
    assert run(source, *args, path).exit_code == 0
    path.write_text(path.read_text().replace("mid_block", "mid_blocks"))
    assert_refused(run(source, *args, path), 1, "recipe mine", "--force")


def test_recipes_that_cannot_be_followed(source: Path, tmp_path: Path) -> None:
    path, args = tmp_path / "mine.toml", ("-o", tmp_path / "out", "--component", "unet", "--recipe")
    assert_refused(run(source, *args, "gpu-w9"), 2, "gpu-w9", "gpu-w8", ".toml")
    path.write_text("[[line]]\nstore = 'int8'\nname = 'midblock.*'\ncomponent = 'unet'\n")
    assert_refused(run(source, *args, path), 1, "line entry 1", "midblock.*", "nearest are mid_block.")
    path.write_text("without = ['no_such_rule']\n")
    assert_refused(run(source, *args, path), 1, "mine", "no_such_rule")
    assert_no_debris(tmp_path, "mine.toml")


def test_a_bundle_of_an_older_format_is_not_taken_for_one(source: Path, tmp_path: Path) -> None:
    assert run(source, "-o", tmp_path, "--component", "text_encoder").exit_code == 0
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["configuration"]["weights"] = manifest["configuration"].pop("recipe")["name"]
    path.write_text(json.dumps({**manifest, "format": 1}))
    result = run(source, "-o", tmp_path, "--component", "text_encoder")
    assert_refused(result, 1, "has format 1, which an older msd wrote", "--force")
