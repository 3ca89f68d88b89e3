"""The image that a phone should generate: which PNGs `--expect` takes, and what the test gets of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from msd.bundle import Bundle, open_bundle
from msd.errors import BadImage
from msd.export.android.expect import LEAST_PSNR, read_expected
from msd.export.app.manifest import AppManifest, describe
from msd.run.runtime.image import GeneratedImage, save_image
from msd.run.runtime.pipeline import Pipeline
from tests.app_bundles import draw_with_sums, write_bundle
from tests.expected_images import write_expected


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(write_bundle(tmp_path_factory.mktemp("bundle") / "one"))


@pytest.fixture(scope="module")
def manifest(bundle: Bundle) -> AppManifest:
    return describe(bundle, (2, 6))


def test_the_test_gets_the_request_of_an_image_that_msd_generated(
    bundle: Bundle, manifest: AppManifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_with_sums(monkeypatch)
    image = Pipeline(bundle).generate(
        "a “red” circle", negative_prompt="", seed=2**63 - 1, steps=6, guidance=3.5
    )
    save_image(image, tmp_path / "expected.png")
    expected = read_expected(tmp_path / "expected.png", manifest)
    assert json.loads(expected.dump()) == {
        "prompt": "a “red” circle",
        "negative_prompt": "",
        "seed": 2**63 - 1,
        "steps": 6,
        "guidance": 3.5,
        "least_psnr": LEAST_PSNR,
    }


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"prompt": None}, "does not say how it was made (it has no 'prompt'); give a PNG of msd generate"),
    ({"model": "0123"}, "has another model (0123) than the app ("),
    ({"scheduler": "euler, epsilon"}, "has another scheduler (euler, epsilon) than the app (ddim, "),
    ({"steps": 3}, "has 3 steps and the app 2 or 6; export with --steps 3"),
    ({"seed": -1}, "has the seed -1; an app takes 0 to 9223372036854775807"),
    ({"seed": "seven"}, "has a request that cannot be read (invalid literal for int()"),
    ({"image": "photo.jpg"}, "began from an image, and the app's test generates from prompts alone"),
    ({"controls": "['canny']"}, "was steered by a picture, and the app's test generates from prompts alone"),
    ({"upscale": "4"}, "was enlarged, and the app's test generates from prompts alone"),
    ({"prompt_syntax": "a1111"}, "has a prompt with weights, and the app takes prompts as they are"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[next(iter(changes)) for changes, _ in REFUSED])
def test_an_image_that_the_app_cannot_generate_is_refused(
    changes: dict[str, Any], message: str, bundle: Bundle, manifest: AppManifest, tmp_path: Path
) -> None:
    path = write_expected(tmp_path / "expected.png", bundle, **changes)
    with pytest.raises(BadImage) as refused:
        read_expected(path, manifest)
    assert str(refused.value).startswith(f"{path} {message}")


def test_an_image_of_another_size_is_refused(bundle: Bundle, manifest: AppManifest, tmp_path: Path) -> None:
    path = write_expected(tmp_path / "expected.png", bundle)
    with Image.open(path) as image:
        chunks = {name: str(text) for name, text in image.text.items()}
    chunks["model"] = "of another size"
    pixels, latents = np.zeros((64, 48, 3), np.uint8), np.zeros((1, 8, 6, 4), np.float32)
    save_image(GeneratedImage(pixels, latents, chunks), path, force=True)
    with pytest.raises(BadImage, match=r"has another size \(48x64\) than the app \(48x32\)"):
        read_expected(path, manifest)


def test_a_file_that_is_no_png_is_refused(manifest: AppManifest, tmp_path: Path) -> None:
    path = tmp_path / "expected.png"
    with pytest.raises(BadImage, match=r"cannot read .*expected\.png \(.*No such file"):
        read_expected(path, manifest)
    path.write_text("no image")
    with pytest.raises(BadImage, match="is no PNG; give one that msd generate wrote"):
        read_expected(path, manifest)
    Image.new("RGB", (48, 32)).save(path, "JPEG")
    with pytest.raises(BadImage, match="is no PNG"):
        read_expected(path, manifest)


def test_a_png_that_ends_early_is_refused(bundle: Bundle, manifest: AppManifest, tmp_path: Path) -> None:
    path = write_expected(tmp_path / "expected.png", bundle)
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(BadImage, match=r"cannot read .*expected\.png"):
        read_expected(path, manifest)
