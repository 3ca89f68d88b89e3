"""`--fuse-control`: the U-Net and its ControlNets in one file, against the same in files of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import msd
from msd.bundle import Bundle, ImageSize
from msd.cli import msd as umbrella
from msd.graph.parity import psnr
from msd.models.families.control import PREFIX
from msd.run.runtime.control import Control
from msd.run.runtime.initial_image import InitialImage
from msd.run.runtime.pipeline import Pipeline
from tests import checkpoints, controlnets
from tests.late import diffusers

HEIGHT, WIDTH = 24, 40
CANNY, DEPTH = "canny", "depth"
CASES: dict[str, tuple[dict[str, float], dict[str, Any]]] = {
    "one": ({CANNY: 0.8}, {}),
    "two": ({CANNY: 0.8, DEPTH: -0.5}, {}),
    "guess": ({DEPTH: 1.0}, {"guess": True}),
    "without guidance": ({CANNY: 1.0}, {"guidance": 1.0}),
    "scale 0": ({CANNY: 0.0}, {}),
    "none": ({}, {}),
}


def folders(folder: Path, kind: dict[str, Any]) -> dict[str, Any]:
    """Write a checkpoint and two ControlNets, which read latents alone; return the options that name them."""
    made = checkpoints.write(folder / "tiny", kind)["unet"]
    unet = diffusers.UNet2DConditionModel.from_config({**made.config, "in_channels": 4})
    for seed, name in enumerate((CANNY, DEPTH)):
        controlnets.write(folder / name, unet, seed, **controlnets.OF_TINY)
    return {"controlnets": [(folder / CANNY, None), (folder / DEPTH, None)]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fused")
    given = folders(folder, checkpoints.TINY)
    for recipe in ("float32", "gpu-w8"):
        for fused in (False, True):
            out = folder / f"{recipe}-{'fused' if fused else 'apart'}"
            msd.convert(
                folder / "tiny", out, recipe=recipe, fuse_control=fused, height=HEIGHT, width=WIDTH, **given
            )
    return folder


def latents(bundle: Bundle, scales: dict[str, float], size: tuple[int, int], **settings: Any) -> np.ndarray:
    """Return the last latents of an image that random pictures steer, in a part of the steps."""
    hints = np.random.default_rng(5).integers(0, 2, (2, 1, *size, 3)).astype(np.float32) * 2 - 1
    controls = [
        Control(name, hints[i], scale, until=0.8)
        for i, name in enumerate((CANNY, DEPTH))
        if (scale := scales.get(name)) is not None
    ]
    with Pipeline(bundle) as pipeline:
        return pipeline.generate("a red dog!", seed=3, steps=4, controls=controls, **settings).latents


@pytest.mark.parametrize("recipe", ["float32", "gpu-w8"])
@pytest.mark.parametrize("case", CASES)
def test_images_are_those_of_separate_files(case: str, recipe: str, folder: Path) -> None:
    scales, settings = CASES[case]
    apart, fused = (
        latents(msd.open_bundle(folder / f"{recipe}-{kind}"), scales, (HEIGHT, WIDTH), **settings)
        for kind in ("apart", "fused")
    )
    assert psnr(apart, fused) >= 100
    if any(scales.values()):
        rest = {key: value for key, value in settings.items() if key != "guess"}
        plain = latents(msd.open_bundle(folder / f"{recipe}-fused"), {}, (HEIGHT, WIDTH), **rest)
        assert psnr(plain, fused) < 60


def test_the_unet_takes_pictures_in_the_place_of_residuals(folder: Path) -> None:
    bundle = msd.open_bundle(folder / "float32-fused", verify=True)
    manifest = bundle.manifest
    assert tuple(manifest.components) == ("text_encoder", "unet", "vae_decoder")
    assert manifest.configuration.controls == bundle.wiring.controls == (CANNY, DEPTH)
    inputs = {spec.name: spec.shape for spec in bundle.component("unet").inputs}
    assert {name: inputs[name] for name in inputs if name.startswith(("hint", "scale", "control"))} == {
        **{f"hint_{name}": (1, HEIGHT, WIDTH, 3) for name in (CANNY, DEPTH)},
        **{f"scale_{name}": (1, 5) for name in (CANNY, DEPTH)},
    }
    assert {"canny/config.json", "controlnet_depth/config.json"} & {*manifest.source.files} == {
        "controlnet_depth/config.json"
    }


def test_a_unet_that_reads_a_mask_gives_its_controlnets_the_latents_alone(tmp_path: Path) -> None:
    given = folders(tmp_path, checkpoints.vary(checkpoints.TINY, unet={"in_channels": 9}))
    image = InitialImage(
        np.random.default_rng(1).uniform(-1, 1, (1, HEIGHT, WIDTH, 3)).astype(np.float32),
        np.ones((1, HEIGHT, WIDTH, 1), np.float32),
        "random",
    )
    found = []
    for fused in (False, True):
        out = msd.convert(
            tmp_path / "tiny",
            tmp_path / str(fused),
            recipe="float32",
            fuse_control=fused,
            height=HEIGHT,
            width=WIDTH,
            **given,
        )
        found.append(latents(out, {CANNY: 0.8}, (HEIGHT, WIDTH), image=image, strength=1.0))
    assert psnr(*found) >= 100


def test_several_sizes_share_a_file(folder: Path, tmp_path: Path) -> None:
    sizes = [ImageSize(WIDTH, HEIGHT), ImageSize(24, 32)]
    given: dict[str, Any] = {"recipe": "float32", "controlnets": [(folder / CANNY, None)]}
    both = msd.convert(folder / "tiny", tmp_path / "both", fuse_control=True, sizes=sizes, **given)
    assert both.component("unet").signatures == ("40x24", "24x32")


@pytest.mark.parametrize(("kind", "optional"), [("apart", [PREFIX + CANNY, PREFIX + DEPTH]), ("fused", [])])
def test_a_visitor_of_a_page_fetches_the_denoiser_at_once(
    kind: str, optional: list[str], folder: Path, tmp_path: Path
) -> None:
    """Whether it has ControlNets inside or not; those in files of their own wait for a picture."""
    shown = call("export-web", folder / f"gpu-w8-{kind}", "-o", tmp_path / "site", "--no-expected")
    assert shown.exit_code == 0, shown.output
    manifest = json.loads((tmp_path / "site/model/web-manifest.json").read_text("utf-8"))
    networks = {network["role"]: network.get("optional", False) for network in manifest["networks"]}
    assert [role for role in networks if networks[role]] == optional
    assert "unet" in networks


def call(*arguments: object) -> Result:
    return CliRunner().invoke(umbrella, [str(each) for each in arguments], catch_exceptions=False)


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "no ControlNet": (("--fuse-control",), "--fuse-control does nothing without --controlnet"),
    "pruning": (
        ("--fuse-control", "--controlnet", CANNY, "--prune", "10%"),
        "pruning the unet would prune the ControlNets inside it too; leave out --fuse-control",
    ),
    "halves": (
        ("--fuse-control", "--controlnet", CANNY, "--split"),
        "--split writes the unet as two files, and --fuse-control puts ControlNets inside it",
    ),
    "prompts": (
        ("--fuse-control", "--controlnet", CANNY, "--calibration", "random-words", "--component", "unet"),
        "prompts have no pictures by which the ControlNets inside the unet steer",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_fused_is_refused(case: str, folder: Path, tmp_path: Path) -> None:
    words, sentence = REFUSED[case]
    words = tuple(str(folder / word) if word == CANNY else word for word in words)
    result = call("convert", folder / "tiny", "-o", tmp_path / "out", *words)
    assert result.exit_code == 1
    assert sentence in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


def test_the_other_kind_of_bundle_is_not_added_to(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "float32-fused", tmp_path / "out")
    given = ("--controlnet", folder / CANNY, "--controlnet", folder / DEPTH, "--recipe", "float32")
    size = ("--height", HEIGHT, "--width", WIDTH)
    result = call("convert", folder / "tiny", "-o", tmp_path / "out", *given, *size)
    assert result.exit_code == 1
    assert "holds a conversion with --fuse-control" in " ".join(result.output.split())
    again = call("convert", folder / "tiny", "-o", tmp_path / "out", *given, *size, "--fuse-control")
    assert "Nothing to convert" in again.output


def test_the_report_judges_one_file(folder: Path) -> None:
    report = call("report", folder / "gpu-w8-fused", "--no-run", "--format", "json")
    files = {Path(each["file"]).stem: each for each in json.loads(report.stdout)["files"]}
    assert {*files} == {"text_encoder", "unet", "vae_decoder"}
