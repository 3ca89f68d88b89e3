"""`msd-convert --controlnet` and `msd generate --control`: what they write, say and refuse."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image, PngImagePlugin
from safetensors.torch import load_file, save_file

from msd.bundle import Bundle, ImageDefaults, open_bundle
from msd.cli import msd as umbrella
from msd.compress.calibration.generated_inputs import Calibration
from msd.errors import BadCalibration
from msd.run.runtime.control_file import canny, parse_control
from tests import checkpoints, controlnets

HEIGHT, WIDTH = 24, 40
SIZE = ("--height", HEIGHT, "--width", WIDTH)
FEW = ("--steps", 2, "-p", "a red dog!")


def call(*arguments: object) -> Result:
    return CliRunner().invoke(umbrella, [str(each) for each in arguments], catch_exceptions=False)


def done(*arguments: object) -> Result:
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint, two ControlNets, bundles with and without them, and pictures."""
    folder = tmp_path_factory.mktemp("cli-control")
    unet = checkpoints.write(folder / "tiny", checkpoints.TINY)["unet"]
    made = controlnets.write(folder / "canny", unet, **controlnets.OF_TINY)
    controlnets.write_file(folder / "control_depth.pth", made)
    done("convert", folder / "tiny", "-o", folder / "without", *SIZE)
    given = ("--controlnet", folder / "canny", "--controlnet", f"{folder / 'control_depth.pth'}:depth")
    done("convert", folder / "tiny", "-o", folder / "out", *SIZE, *given)
    levels = np.zeros((50, 60, 3), np.uint8)
    levels[10:40, 20:50] = (250, 200, 30)
    Image.fromarray(levels).save(folder / "photo.png")
    Image.fromarray(levels[:HEIGHT, :WIDTH]).save(folder / "edges.png")
    return folder


@pytest.fixture(scope="module")
def bundle(folder: Path) -> Bundle:
    return open_bundle(folder / "out", verify=True)


def metadata(path: Path) -> dict[str, Any]:
    image = Image.open(path)
    assert isinstance(image, PngImagePlugin.PngImageFile)
    return dict(image.text)


def test_a_bundle_has_a_file_of_each_controlnet(bundle: Bundle) -> None:
    manifest = bundle.manifest
    controls = ("controlnet_canny", "controlnet_depth")
    assert tuple(manifest.components) == ("text_encoder", *controls, "unet", "vae_decoder")
    assert manifest.configuration.controls == ("canny", "depth")
    assert {spec.name for spec in bundle.component("controlnet_canny").outputs} == {
        f"control_{i}" for i in range(5)
    }
    inputs = {spec.name: spec.shape for spec in bundle.component("unet").inputs}
    assert inputs["control_0"] == (1, 12, 20, 16)
    assert inputs["control_4"] == (1, 6, 10, 24)
    assert "controlnet_depth/control_depth.pth" in manifest.source.files


def test_without_controlnets_the_other_files_are_the_same(folder: Path, bundle: Bundle) -> None:
    without = open_bundle(folder / "without", verify=True)
    for name, part in without.manifest.components.items():
        assert (part.sha256 == bundle.component(name).sha256) == (name != "unet")
    assert "controls" not in json.loads((folder / "without" / "manifest.json").read_text())["configuration"]
    assert [call.component for call in without.wiring.steps] == ["unet"]


def test_converting_again_does_nothing_and_other_controlnets_are_refused(folder: Path) -> None:
    shutil.copytree(folder / "out", folder / "again")
    given = ("--controlnet", folder / "canny", "--controlnet", f"{folder / 'control_depth.pth'}:depth")
    again = done("convert", folder / "tiny", "-o", folder / "again", *SIZE, *given)
    assert "Nothing to convert" in again.output
    result = call("convert", folder / "tiny", "-o", folder / "again", *SIZE, *given[:2])
    assert result.exit_code == 1
    assert "holds a conversion with the ControlNets canny, depth" in result.output


def test_the_plan_of_a_conversion_has_them(folder: Path) -> None:
    planned = done("convert", folder / "tiny", "--dry-run", *SIZE, "--controlnet", folder / "canny", "--json")
    assert "controlnet_canny" in json.loads(planned.stdout)["parameters"]


def test_the_report_judges_them(folder: Path) -> None:
    report = done("report", folder / "out", "--no-run", "--format", "json")
    files = {Path(each["file"]).stem: each for each in json.loads(report.stdout)["files"]}
    assert {"controlnet_canny", "controlnet_depth", "unet"} < {*files}


def test_a_picture_steers(folder: Path, tmp_path: Path) -> None:
    result = done("generate", folder / "out", *FEW, "-o", tmp_path / "plain.png")
    assert "steers by" not in result.output
    steered = done(
        *("generate", folder / "out", *FEW, "-o", tmp_path / "steered.png"),
        *("--control", f"canny={folder / 'photo.png'}:0.5", "--control-until", 0.9, "--guess"),
    )
    assert (
        "canny steers by photo.png: 60×50 pixels, cropped to 60×36 pixels, resized to 40×24" in steered.output
    )
    written = metadata(tmp_path / "steered.png")
    assert written["controls"].startswith("canny at 0.5, from 0 until 0.9 by photo.png")
    assert written["guess"] == "True"
    assert "controls" not in metadata(tmp_path / "plain.png")
    images = [np.asarray(Image.open(tmp_path / f"{name}.png")) for name in ("plain", "steered")]
    assert np.any(images[0] != images[1])


def test_unused_controlnets_are_not_loaded(folder: Path, tmp_path: Path) -> None:
    timeline = tmp_path / "timeline.json"
    control = ("--control", f"depth={folder / 'edges.png'}")
    done("generate", folder / "out", *FEW, "-o", tmp_path / "a.png", *control, "--timeline", timeline)
    loaded = {event["component"] for event in json.loads(timeline.read_text())["events"]}
    assert {each for each in loaded if each.startswith("controlnet")} == {"controlnet_depth"}
    done(
        "generate", folder / "out", *FEW, "-o", tmp_path / "b.png", *control, "--timeline", tmp_path / "t.svg"
    )


def test_two_images_are_steered_together_and_by_resident_networks(folder: Path, tmp_path: Path) -> None:
    control = ("--control", f"canny={folder / 'edges.png'}", "--count", 2)
    for execution in ("pipelined", "resident", "sequential"):
        out = tmp_path / f"{execution}-{{seed}}.png"
        done("generate", folder / "out", *FEW, *control, "-o", out, "--execution", execution)
    for seed in range(2):
        first, *others = (np.asarray(Image.open(path)) for path in sorted(tmp_path.glob(f"*-{seed}.png")))
        assert len(others) == 2
        assert all(np.array_equal(first, other) for other in others)


def test_each_picture_has_its_own_part_of_the_steps(folder: Path, tmp_path: Path) -> None:
    given = (
        *(
            "--control",
            f"canny={folder / 'edges.png'}:0.5:0:0.6",
            "--control",
            f"depth={folder / 'edges.png'}",
        ),
        *("--control-from", 0.3, "--steps", 4),
    )
    done("generate", folder / "out", "-p", "a red dog!", "-o", tmp_path / "a.png", *given)
    written = metadata(tmp_path / "a.png")["controls"]
    assert "canny at 0.5, from 0 until 0.6 by" in written
    assert "depth at 1, from 0.3 until 1 by" in written


def test_edges_of_a_photograph_steer(folder: Path, tmp_path: Path) -> None:
    control = ("--control", f"canny={folder / 'photo.png'}", "--from-photo")
    result = done("generate", folder / "out", *FEW, "-o", tmp_path / "a.png", *control)
    assert "canny steers by the edges of photo.png" in result.output


def test_edges_are_white_where_brightness_changes() -> None:
    pixels = np.full((1, 32, 48, 3), -1, np.float32)
    pixels[:, :, 20:] = 1
    edges = canny(pixels)
    assert edges.shape == pixels.shape
    assert edges.dtype == np.float32
    assert {*np.unique(edges)} == {-1, 1}
    assert {*np.nonzero(edges[0, 8:24, :, 0] == 1)[1]} <= {19, 20}
    assert np.all((edges[0, 8:24, :, 0] == 1).any(axis=1))


def test_a_control_is_a_name_a_file_and_a_scale(tmp_path: Path) -> None:
    read = {text: parse_control(text) for text in ("a=b.png", "a=b.png:0.5", "a=b:c.png", "a=b=c.png:-2")}
    assert [(c.name, str(c.path), c.scale) for c in read.values()] == [
        ("a", "b.png", 1.0),
        ("a", "b.png", 0.5),
        ("a", "b:c.png", 1.0),
        ("a", "b=c.png", -2.0),
    ]
    parts = parse_control("a=b:c.png:0.5:0.2:0.8")
    assert (str(parts.path), parts.scale, parts.begin, parts.until) == ("b:c.png", 0.5, 0.2, 0.8)
    assert (parse_control("a=b.png:1:0.2").begin, parse_control("a=b.png:1").begin) == (0.2, None)
    (tmp_path / "1:2").touch()
    assert parse_control(f"a={tmp_path}/1:2").path == tmp_path / "1:2"


Arguments = Callable[[Path], tuple[object, ...]]
REFUSED: dict[str, tuple[Arguments, int, str]] = {
    "no name": (lambda f: ("--control", f / "edges.png"), 2, "should be NAME=FILE[:SCALE[:FROM[:UNTIL]]]"),
    "unknown name": (
        lambda f: ("--control", f"pose={f / 'edges.png'}"),
        1,
        "has no ControlNet 'pose'; it has canny, depth",
    ),
    "twice": (
        lambda f: ("--control", f"canny={f / 'edges.png'}", "--control", f"canny={f / 'photo.png'}"),
        1,
        "the control canny is given twice",
    ),
    "no picture": (lambda f: ("--control", f"canny={f / 'none.png'}"), 1, "none.png cannot be read"),
    "no image": (
        lambda f: ("--control", f"canny={f / 'control_depth.pth'}"),
        1,
        "is no image that can be read",
    ),
    "scale": (lambda f: ("--control", f"canny={f / 'edges.png'}:5000"), 2, "should be a number up to 1000"),
    "not a number": (
        lambda f: ("--control", f"canny={f / 'edges.png'}:nan"),
        2,
        "should be a number up to 1000",
    ),
    "part": (
        lambda f: ("--control", f"canny={f / 'edges.png'}", "--control-from", 0.5, "--control-until", 0.5),
        2,
        "counts from 0.5 until 0.5; both are parts of all steps, from 0 to 1, and the first should",
    ),
    "guess alone": (lambda f: ("--guess",), 2, "--guess does nothing without --control"),
    "from alone": (lambda f: ("--control-from", 0.1), 2, "--control-from does nothing without --control"),
    "from of none": (
        lambda f: ("--control", f"canny={f / 'edges.png'}:1:0.1", "--control-from", 0.5),
        2,
        "--control-from does nothing where each --control names its own part of the steps",
    ),
    "photo alone": (lambda f: ("--from-photo",), 2, "--from-photo does nothing without --control"),
    "two photos": (
        lambda f: (
            *("--control", f"canny={f / 'photo.png'}", "--control", f"depth={f / 'edges.png'}"),
            "--from-photo",
        ),
        2,
        "--from-photo finds the edges of one photograph",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_controls_are_refused(case: str, folder: Path, tmp_path: Path) -> None:
    given, code, sentence = REFUSED[case]
    result = call("generate", folder / "out", *FEW, "-o", tmp_path / "a.png", *given(folder))
    assert result.exit_code == code
    assert sentence in " ".join(result.output.split())
    assert "pixels" not in result.output
    assert not [*tmp_path.iterdir()]


def test_a_bundle_without_controlnets_names_the_option(folder: Path, tmp_path: Path) -> None:
    control = ("--control", f"canny={folder / 'edges.png'}")
    result = call("generate", folder / "without", *FEW, "-o", tmp_path / "a.png", *control)
    assert result.exit_code == 1
    assert "has no ControlNet 'canny'; msd convert --controlnet PATH adds one" in result.output


def test_a_bundle_that_lost_a_controlnet_says_what_writes_one(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "out", tmp_path / "out")
    path = tmp_path / "out" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["components"]["controlnet_depth"]
    manifest["calls"] = [c for c in manifest["calls"] if c["component"] != "controlnet_depth"]
    path.write_text(json.dumps(manifest))
    done(
        "generate",
        tmp_path / "out",
        *FEW,
        "-o",
        tmp_path / "a.png",
        "--control",
        f"canny={folder / 'edges.png'}",
    )
    result = call("bench", tmp_path / "out", "--component", "controlnet_depth")
    assert result.exit_code != 0
    assert "msd-convert CHECKPOINT --controlnet PATH:depth -o OUT writes one" in result.output


def test_a_controlnet_without_a_tensor_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "canny", tmp_path / "canny")
    path = tmp_path / "canny" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(path)
    del tensors["controlnet_mid_block.weight"]
    save_file(tensors, path)
    given = ("--controlnet", tmp_path / "canny")
    result = call("convert", folder / "tiny", "-o", tmp_path / "out", *SIZE, *given)
    assert result.exit_code == 1
    assert "controlnet_canny of tiny" in result.output
    assert "lacks controlnet_mid_block.weight" in result.output
    assert not (tmp_path / "out").exists()


def test_networks_of_keras_cv_take_none(folder: Path, tmp_path: Path) -> None:
    result = call("convert", folder / "canny", "-o", tmp_path / "out", "--controlnet", folder / "canny")
    assert result.exit_code == 1
    assert "has no readable model_index.json" in result.output


def test_prompts_calibrate_all_but_controlnets(folder: Path, tmp_path: Path) -> None:
    given = (
        "--controlnet",
        folder / "canny",
        "--prune",
        "10%",
        "--calibration",
        "random-words",
        "--steps",
        2,
    )
    result = done("convert", folder / "tiny", "-o", tmp_path / "out", *SIZE, *given)
    assert "controlnet_canny is rounded to nearest: the calibration has no pictures" in result.output
    ledger = open_bundle(tmp_path / "out").manifest.ledger
    assert [name for name, entry in ledger.items() if entry.pruning] == ["unet"]
    calibration = Calibration(Path("random-words")).completed(ImageDefaults(2, 7.5))
    with pytest.raises(BadCalibration, match="prompts have no pictures by which controlnet_canny steers"):
        calibration.runs(open_bundle(folder / "out"), ["unet", "controlnet_canny"], tmp_path)


@pytest.mark.parametrize("part", [":1:0.9:1", ":0", ":1:0:0.4"])
def test_a_picture_that_counts_in_no_step_is_remarked_on(part: str, folder: Path, tmp_path: Path) -> None:
    words = (folder / "out", *FEW, "--control", f"canny={folder / 'edges.png'}{part}", "-o")
    assert (
        "the control canny steers none of the 2 steps" in done("generate", *words, tmp_path / "a.png").stderr
    )
    whole = ("--control", f"canny={folder / 'edges.png'}:1:0:0.5")
    said = done("generate", folder / "out", *FEW, *whole, "-o", tmp_path / "b.png").stderr
    assert "steers none" not in said
