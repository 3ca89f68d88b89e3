"""`msd generate` from its arguments to the PNG file, on a real bundle of stand-in networks."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from msd.bundle import open_bundle
from msd.cli import msd
from msd.cli.generate import generate
from msd.export.app.manifest import describe
from msd.run.runtime.denoiser import Denoiser
from msd.run.runtime.execution import EXECUTIONS
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.scheduler import SCHEDULERS
from msd.run.runtime.timeline import load_timeline
from tests.stable_diffusion import COMPONENTS


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(msd, ["generate", *map(str, arguments)], prog_name="msd", terminal_width=100)


def test_the_help_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("generate-help.txt", run("--help").output)


def test_the_examples_in_the_help_that_need_no_image_work(
    bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line for line in run("--help").output.splitlines() if line.startswith("    msd generate ")]
    assert len(lines) == 3
    monkeypatch.chdir(tmp_path)
    for line in lines[:2]:
        words = shlex.split(line)
        result = run(*(bundle_folder if word == "demo-out" else word for word in words[2:]), "--steps", "1")
        assert result.exit_code == 0
    assert {each.name for each in tmp_path.iterdir()} == {
        "image-0.png",
        "star-7.png",
        "star-8.png",
        "star-9.png",
    }


def test_words_that_are_cut_are_named(bundle_folder: Path, tmp_path: Path) -> None:
    options = ("--negative-prompt", "the dogs " * 38, "--steps", "1")
    result = run(bundle_folder, "--prompt", "the " * 75, *options, "-o", tmp_path / "a.png")
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert warnings == ["warning: a prompt has room for 75 tokens, and this was cut: dogs"]
    result = run(bundle_folder, "--prompt", "the " * 75, "--steps", "1", "-o", tmp_path / "b.png")
    assert "warning" not in result.stderr


def test_what_is_not_used_is_said_once_and_kept_with_the_image(bundle_folder: Path, tmp_path: Path) -> None:
    """On stderr, in --json and in the file."""
    options = ("--steps", "1", "--images", "2", "--precision", "fp16", "--json", "-o", tmp_path / "a.png")
    result = run(bundle_folder, "--prompt", "the <lora:x:1>", *options)
    assert result.exit_code == 0, result.output
    said = ["read as text: <lora:x:1>; msd-convert --lora merges a LoRA into the weights"]
    said += ["the backend cpu does not use precision fp16"]
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert warnings == [f"warning: {each}" for each in said]
    assert [json.loads(line)["remarks"] for line in result.stdout.splitlines()] == [said, said]
    with Image.open(tmp_path / "a-1.png") as image:
        assert image.info["remarks"] == "\n".join(said)
    plain = run(bundle_folder, "--prompt", "the", "--steps", "1", "--json", "-o", tmp_path / "b.png")
    assert "remarks" not in json.loads(plain.stdout)


@pytest.mark.parametrize(("suffix", "kind"), [(".jpg", "JPEG"), (".webp", "WEBP")])
def test_the_suffix_decides_the_format(suffix: str, kind: str, bundle_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    assert run(bundle_folder, "--prompt", "the fox", "--steps", "1", "-o", path).exit_code == 0
    with Image.open(path) as image:
        assert (image.format, image.size) == (kind, (48, 32))
        assert json.loads(image.getexif()[0x010E])["prompt"] == "the fox"


@pytest.mark.parametrize("name", ["a.gif", "a", "{seed}"])
def test_a_suffix_of_no_image_is_wrong_usage(name: str, bundle_folder: Path, tmp_path: Path) -> None:
    result = run(bundle_folder, "--prompt", "a", "-o", tmp_path / name)
    assert result.exit_code == 2
    assert "images are written as .png, .jpg, .jpeg, .webp" in result.stderr


def test_the_help_names_every_scheduler() -> None:
    (option,) = (each for each in generate.params if each.name == "scheduler")
    named = option.help.replace(" or ", ", ").split(", ") if isinstance(option, click.Option) else []
    assert [name for name in SCHEDULERS if name not in named] == []


def test_a_scale_of_sigmas_is_part_of_the_name(bundle_folder: Path, tmp_path: Path) -> None:
    said = run(bundle_folder, "--prompt", "a", "--steps", "2", "--json", "-o", tmp_path / "a.png",
               "--scheduler", "dpm+++karras")  # fmt: skip
    assert json.loads(said.stdout)["scheduler"] == "dpm+++karras, epsilon"
    other = run(bundle_folder, "--prompt", "a", "--scheduler", "ddim+karras", "-o", tmp_path / "b.png")
    assert (other.exit_code, "the scheduler ddim has no karras sigmas" in other.stderr) == (2, True)


def test_an_unknown_scheduler_is_refused(bundle_folder: Path, tmp_path: Path) -> None:
    result = run(bundle_folder, "--prompt", "a", "--scheduler", "huen", "-o", tmp_path / "a.png")
    assert result.exit_code == 2
    assert "no scheduler is called 'huen'; there are ddim, ddpm, deis, dpm++" in result.stderr


def test_draws_the_picture_it_was_asked_for(bundle_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    options = ("--negative-prompt", "dogs", "--seed", "5", "--steps", "3", "--guidance", "4", "--verify")
    result = run(bundle_folder, "--prompt", "naïve café 日本", *options, "-o", path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"{path}: 48×32, seed 5, " in result.stderr
    assert " steps of ddim, " in result.stderr
    bundle = open_bundle(bundle_folder)
    expected = Pipeline(bundle).generate(
        "naïve café 日本", negative_prompt="dogs", seed=5, steps=3, guidance=4.0
    )
    with Image.open(path) as image:
        assert np.array_equal(np.asarray(image), expected.pixels)
        written = {key: image.info[key] for key in ("prompt", "negative_prompt", "seed", "steps", "guidance")}
        assert list(written.values()) == ["naïve café 日本", "dogs", "5", "3", "4.0"]
        assert image.info["model"] == bundle.model_hash


def test_a_negative_prompt_without_use_is_warned_of(bundle_folder: Path, tmp_path: Path) -> None:
    options = ("--prompt", "fox", "--negative-prompt", "dogs", "--steps", "1", "--json")
    unused = run(bundle_folder, *options, "--guidance", "1", "-o", tmp_path / "a.png")
    assert "warning: the negative prompt is not used: guidance of 1 or less needs none" in unused.stderr
    assert json.loads(unused.stdout)["guidance_mode"] == "none"
    used = run(bundle_folder, *options, "--guidance", "2", "-o", tmp_path / "b.png")
    assert "warning" not in used.stderr
    assert json.loads(used.stdout)["guidance_mode"] == "two passes"


@pytest.mark.parametrize("images", [{"steps": 2, "guidance": 1.0}, None])
def test_steps_and_guidance_are_by_default_the_model_s(
    images: dict[str, float] | None, bundle_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "bundle"
    shutil.copytree(bundle_folder, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest = {key: value for key, value in manifest.items() if key != "images"}
    (folder / "manifest.json").write_text(json.dumps(manifest | ({"images": images} if images else {})))
    said = json.loads(run(folder, "--prompt", "fox", "-o", tmp_path / "a.png", "--json").stdout)
    assert (said["steps"], said["guidance"]) == ((2, 1.0) if images else (20, 7.5))
    told = run(
        folder, "--prompt", "fox", "-o", tmp_path / "b.png", "--json", "--steps", "1", "--guidance", "3"
    )
    assert [json.loads(told.stdout)[key] for key in ("steps", "guidance")] == [1, 3.0]
    by_python = Pipeline(open_bundle(folder)).generate("fox").metadata
    assert (by_python["steps"], by_python["guidance"]) == (said["steps"], said["guidance"])
    app = describe(open_bundle(folder))
    assert [schedule.count for schedule in app.schedules] == [said["steps"]]
    assert app.guidance.scale == said["guidance"]


def test_json_says_what_was_made(bundle_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    result = run(bundle_folder, "--prompt", "é", "--steps", "1", "-o", path, "--json")
    said = json.loads(result.stdout)
    assert (said["picture"], said["width"], said["height"]) == (str(path), 48, 32)
    assert (said["prompt"], said["backend"]) == ("é", "cpu")
    assert said["seconds"] > 0


def test_several_pictures_are_those_of_seeds_one_after_the_other(bundle_folder: Path, tmp_path: Path) -> None:
    options = ("--prompt", "fox", "--steps", "2", "--seed", "8")
    result = run(bundle_folder, *options, "--images", "3", "-o", tmp_path / "a.png", "--json")
    said = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(each["picture"], each["seed"]) for each in said] == [
        (str(tmp_path / f"a-{seed}.png"), seed) for seed in (8, 9, 10)
    ]
    run(bundle_folder, *options[:-1], "9", "-o", tmp_path / "one-{seed}.png")
    assert (tmp_path / "one-9.png").read_bytes() == (tmp_path / "a-9.png").read_bytes()
    assert (tmp_path / "a-8.png").read_bytes() != (tmp_path / "a-9.png").read_bytes()


def test_one_picture_of_several_in_the_way_stops_all(bundle_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a-2.png").write_bytes(b"mine")
    result = run(bundle_folder, "--prompt", "fox", "--images", "3", "-o", tmp_path / "a.png")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "a-2.png exists; choose another name or give --force" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a-2.png"]


def test_a_process_of_its_own_writes_the_same_bytes(bundle_folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from msd.cli import msd; msd()", "generate", str(bundle_folder)]
    for name in ("a.png", "b.png"):
        options = ["--prompt", "fox", "--steps", "2", "-o", str(tmp_path / name)]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
        assert "2/2" in done.stderr
        assert "s/run" in done.stderr
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_refuses_to_replace_a_picture_and_does_when_forced(bundle_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"mine")
    arguments = (bundle_folder, "--prompt", "fox", "--steps", "1", "-o", path)
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"error: {path} exists; choose another name or give --force\n"
    assert path.read_bytes() == b"mine"
    assert run(*arguments, "--force").exit_code == 0
    assert path.read_bytes() != b"mine"


def test_refuses_an_unwritable_place_before_the_work(bundle_folder: Path, tmp_path: Path) -> None:
    result = run(bundle_folder, "--prompt", "fox", "-o", tmp_path / "nowhere" / "a.png")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: cannot write ")
    assert result.stderr.count("\n") == 1


def test_refuses_a_bad_bundle_in_a_sentence(tmp_path: Path) -> None:
    result = run(tmp_path, "--prompt", "fox", "-o", tmp_path / "a.png")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: cannot read {tmp_path / 'manifest.json'}")
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        ["-o", "a.png"],
        ["--prompt", "fox", "-o", "a.png", "--steps", "0"],
        ["--prompt", "fox", "-o", "a.png", "--images", "0"],
        ["--prompt", "fox", "-o", "a.png", "--seed", "-1"],
        ["--prompt", "fox", "-o", "a.png", "--guidance", "much"],
        ["--prompt", "fox", "-o", "a.png", "--backend", "abacus"],
        ["--prompt", "fox", "-o", "."],
        ["--prompt", b"\xff".decode("utf-8", "surrogateescape"), "-o", "a.png"],
    ],
)
def test_wrong_usage_is_exit_code_2(options: list[str], bundle_folder: Path) -> None:
    result = run(bundle_folder, *options)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_seeds_beyond_the_largest_name_the_count(bundle_folder: Path, tmp_path: Path) -> None:
    largest = (1 << 63) - 1
    options = ("--prompt", "fox", "-o", tmp_path / "a.png", "--steps", "1", "--seed", largest)
    result = run(bundle_folder, *map(str, options), "--count", "2")
    assert result.exit_code == 2
    assert f"2 images have consecutive seeds, from {largest} on, and the largest seed is" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert run(bundle_folder, *map(str, options)).exit_code == 0


def test_one_file_is_not_written_twice(bundle_folder: Path, tmp_path: Path) -> None:
    for image in ("a.png", f"../{tmp_path.name}/a.png"):
        words = ["-p", "fox", "-o", str(tmp_path / image), "--timeline", str(tmp_path / "a.png")]
        result = run(bundle_folder, *words)
        assert (result.exit_code, "a.png is given for two different files" in result.stderr) == (2, True)
    assert [*tmp_path.iterdir()] == []


def test_every_execution_writes_the_same_bytes_and_its_timeline(bundle_folder: Path, tmp_path: Path) -> None:
    for execution, form in (("pipelined", "svg"), ("sequential", "png"), ("resident", "json")):
        paths = tmp_path / f"{execution}.png", tmp_path / f"timeline.{form}"
        options = ("--execution", execution, "--timeline", paths[1], "-o", paths[0])
        assert run(bundle_folder, "--prompt", "fox", "--steps", "3", *options).exit_code == 0
    first, *others = ((tmp_path / f"{name}.png").read_bytes() for name in EXECUTIONS)
    assert others == [first, first]
    assert "vae_decoder" in (tmp_path / "timeline.svg").read_text()
    timeline = load_timeline(tmp_path / "timeline.json")
    assert timeline.execution == "resident"
    assert {event.component for event in timeline.events} == set(COMPONENTS)
    with Image.open(tmp_path / "timeline.png") as image:
        assert image.width > 500


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("timeline.txt", 2, "is not a name for a timeline; it should end in .json, .png, .svg"),
        ("mine.svg", 1, "exists"),
    ],
)
def test_refuses_a_timeline_before_the_work(
    name: str, code: int, reason: str, bundle_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.svg").write_text("mine")
    result = run(bundle_folder, "--prompt", "a", "-o", tmp_path / "a.png", "--timeline", tmp_path / name)
    assert (result.exit_code, result.stdout) == (code, "")
    assert reason in result.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["mine.svg"]


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_images_that_are_made_outlive_one_that_fails(
    execution: str, bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is saved once it is made, where the decoder may be in memory beside the denoiser."""
    whole = ("--prompt", "fox", "--steps", "2", "--count", "4", "--json", "--execution", execution, "-o")
    assert run(bundle_folder, *whole, tmp_path / "whole.png").exit_code == 0
    predict, runs = Denoiser.predict, [0]

    def interrupted(*arguments: Any) -> Any:
        runs[0] += 1
        if runs[0] == 6:  # the last step of the third image
            raise KeyboardInterrupt
        return predict(*arguments)

    monkeypatch.setattr(Denoiser, "predict", interrupted)
    stopped = run(bundle_folder, *whole, tmp_path / "a.png")
    assert (stopped.exit_code, stopped.stderr.splitlines()[-1]) == (130, "interrupted")
    seeds = [] if execution == "sequential" else [0, 1]
    lost = "lost: 2 images that were denoised; --execution pipelined saves each once it is\n"
    assert stopped.stderr.count(lost) == stopped.stderr.count("lost") == (execution == "sequential")
    assert sorted(tmp_path.glob("a-*")) == [tmp_path / f"a-{seed}.png" for seed in seeds]
    said = [json.loads(line) for line in stopped.stdout.splitlines()]
    assert [each["picture"] for each in said] == [str(tmp_path / f"a-{seed}.png") for seed in seeds]
    assert all(each["seconds"] > 0 for each in said)
    for seed in seeds:
        assert (tmp_path / f"a-{seed}.png").read_bytes() == (tmp_path / f"whole-{seed}.png").read_bytes()


def test_dynamic_range_without_integers_is_said(bundle_folder: Path, demo_int8: Path, tmp_path: Path) -> None:
    said = "warning: dynamic-range arithmetic changes nothing: no network computes with integer weights"
    for name, folder, count in (("floats", bundle_folder, 1), ("integers", demo_int8, 0)):
        options = ("--prompt", "fox", "--steps", "1", "-o")
        dynamic = run(folder, *options, tmp_path / f"{name}.png", "--dynamic-range")
        assert dynamic.stderr.count(said) == count
        assert said not in run(folder, *options, tmp_path / f"{name}-float.png").stderr
        files = [tmp_path / f"{name}{end}.png" for end in ("", "-float")]
        same = np.array_equal(*(np.asarray(Image.open(file)) for file in files))
        assert same == (count == 1)
