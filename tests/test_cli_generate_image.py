"""`msd generate --image` as a user meets it: what it reads, what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

import graph_rewrites
import msd
from msd.cli.generate import generate
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.run.runtime.image import pixels
from msd.run.runtime.initial_image import open_initial_image
from msd.run.runtime.paste import FEATHER, depths
from tests import checkpoints

SETTINGS = ("--prompt", "a dog", "--steps", 4, "--guidance", 1)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny checkpoint with its image encoder."""
    folder = tmp_path_factory.mktemp("tiny")
    checkpoints.write(folder / "source", checkpoints.TINY)
    settings = Settings(graph_rewrites.load(), find_recipe("float32"), also=("vae_encoder",))
    convert(folder / "source", folder / "out", settings)
    return folder / "out"


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 255, (90, 150, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.jpg")
    return tmp_path / "photo.jpg"


@pytest.fixture
def mask(tmp_path: Path) -> Path:
    pixels = np.zeros((90, 150), np.uint8)
    pixels[20:60, 50:90] = 255
    Image.fromarray(pixels).save(tmp_path / "mask.png")
    return tmp_path / "mask.png"


def run(*args: Any) -> Result:
    return CliRunner().invoke(generate, [str(a) for a in args])


def size_of(bundle: Path) -> tuple[int, int]:
    (image,) = msd.open_bundle(bundle).component("vae_decoder").outputs
    return image.shape[2], image.shape[1]


def test_it_says_what_it_does_to_the_file(bundle: Path, photo: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.png"
    result = run(bundle, *SETTINGS, "--image", photo, "--strength", 0.6, "-o", out, "--json")
    assert result.exit_code == 0, result.output
    width, height = size_of(bundle)
    fitted = f"photo.jpg: 150×90 pixels, cropped to 90×90 pixels, resized to {width}×{height} pixels"
    assert fitted in result.stderr
    report = json.loads(result.stdout)
    assert (report["image"], report["strength"]) == (fitted, 0.6)
    with Image.open(out) as written:
        assert written.size == (width, height)
        assert written.text["image"] == fitted  # type: ignore[attr-defined]


def test_less_strength_keeps_more_of_the_image(bundle: Path, photo: Path, tmp_path: Path) -> None:
    near, far = tmp_path / "near.png", tmp_path / "far.png"
    for path, strength in ((near, 0.25), (far, 1)):
        result = run(bundle, *SETTINGS, "--image", photo, "--strength", strength, "-o", path)
        assert result.exit_code == 0, result.output
    assert near.read_bytes() != far.read_bytes()


def test_a_mask_and_the_way_to_fit_are_taken(bundle: Path, photo: Path, mask: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.png"
    given = ("--image", photo, "--mask", mask, "--fit", "stretch")
    result = run(bundle, *SETTINGS, *given, "-o", out)
    assert result.exit_code == 0, result.output
    width, height = size_of(bundle)
    assert f"150×90 pixels, resized to {width}×{height} pixels; mask mask.png" in result.stderr


def test_what_a_mask_keeps_is_kept_to_the_byte(bundle: Path, photo: Path, mask: Path, tmp_path: Path) -> None:
    """Of a file that is cropped and resized, in each image of a batch, and not with --no-paste."""
    width, height = size_of(bundle)
    image = open_initial_image(photo, height, width, mask=mask)
    assert image.mask is not None
    kept, inner = image.mask[0, ..., 0] == 0, depths(image.mask[0, ..., 0]) == FEATHER
    assert kept.any()
    assert inner.any()
    found = {}
    for more in ((), ("--no-paste",)):
        given = ("--image", photo, "--mask", mask, "--seed", 3, "--images", 2, *more)
        result = run(bundle, *SETTINGS, *given, "-o", tmp_path / f"{len(more)}-{{seed}}.png", "--json")
        assert result.exit_code == 0, result.output
        assert [json.loads(line)["paste"] for line in result.stdout.splitlines()] == [not more] * 2
        found[len(more)] = [np.asarray(Image.open(tmp_path / f"{len(more)}-{seed}.png")) for seed in (3, 4)]
    for pasted, whole in zip(found[0], found[1], strict=True):
        assert np.array_equal(pasted[kept], pixels(image.pixels[0])[kept])
        assert not np.array_equal(whole[kept], pasted[kept])
        assert np.array_equal(whole[inner], pasted[inner])
    assert not np.array_equal(found[0][0], found[0][1])


def test_the_api_gives_the_same_image(bundle: Path, photo: Path, mask: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.png"
    assert run(bundle, *SETTINGS, "--image", photo, "--mask", mask, "-o", out).exit_code == 0
    settings: dict[str, Any] = {"steps": 4, "guidance": 1, "image": photo, "mask": mask}
    image = msd.generate(bundle, "a dog", **settings)
    with Image.open(out) as written:
        np.testing.assert_array_equal(np.asarray(written), image.pixels)
    whole = msd.generate(bundle, "a dog", paste=False, **settings)
    np.testing.assert_array_equal(whole.latents, image.latents)
    assert not np.array_equal(whole.pixels, image.pixels)


def test_what_cannot_be_is_refused(
    bundle: Path, photo: Path, mask: Path, demo_float: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.png"
    text = tmp_path / "a.txt"
    text.write_text("no image")
    refusals = [
        ((bundle, "--image", text), "no image that can be read"),
        ((bundle, "--image", tmp_path / "none.png"), "none.png cannot be read: No such file"),
        ((bundle, "--image", photo, "--strength", 0.1), "leaves no step of 4"),
        (
            (demo_float, "--image", photo),
            "has no vae_encoder; msd-convert CHECKPOINT --also vae_encoder -o OUT writes one",
        ),
    ]
    for arguments, words in refusals:
        result = run(*arguments, *SETTINGS, "-o", out)
        assert result.exit_code == 1
        last = result.stderr.strip().splitlines()[-1]
        assert last.startswith("error: ")
        assert words in last
    assert "pixels" not in result.stderr  # the image is not said to be read where none can be encoded
    for useless in (("--mask", mask), ("--strength", 0.5), ("--fit", "crop")):
        result = run(bundle, *useless, *SETTINGS, "-o", out)
        assert result.exit_code == 2
        assert f"{useless[0]} does nothing without --image" in result.stderr
    result = run(bundle, *SETTINGS, "--image", photo, "--no-paste", "-o", out)
    assert result.exit_code == 2
    assert "--no-paste does nothing without --mask" in result.stderr
    for strength in (0, 1.5):
        result = run(bundle, *SETTINGS, "--image", photo, "--strength", strength, "-o", out)
        assert result.exit_code == 2
    assert not out.exists()
