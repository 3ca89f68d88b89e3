"""The formats of generated images: each by its suffix, with the pixels and the metadata that were written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, features

from msd.errors import BadConfig, OutputExists
from msd.run.runtime.image import GeneratedImage, check_output
from msd.run.runtime.image_file import IMAGE_DESCRIPTION, SOFTWARE

METADATA: dict[str, Any] = {
    "prompt": "naïve café 日本 🎨",
    "seed": 7,
    "guidance": 7.5,
    "remarks": ["one", "two"],
    "software": "msd 0.1.0",
}


def image(**more: Any) -> GeneratedImage:
    """A smooth image that is wider than high, with a colour of its own in each corner."""
    rows, columns = np.mgrid[0:24, 0:40]
    pixels = np.stack([rows * 10, columns * 6, 255 - rows * 5], -1).astype(np.uint8)
    return GeneratedImage(pixels, np.zeros((1, 3, 5, 4), np.float32), {**METADATA, **more})


@pytest.mark.parametrize(("suffix", "kind"), [(".jpg", "JPEG"), (".JPEG", "JPEG"), (".webp", "WEBP")])
def test_the_suffix_decides_the_format_and_exif_has_the_metadata(
    suffix: str, kind: str, tmp_path: Path
) -> None:
    made = image()
    made.save(tmp_path / f"a{suffix}")
    with Image.open(tmp_path / f"a{suffix}") as read:
        assert (read.format, read.size) == (kind, (40, 24))
        exif = read.getexif()
        assert json.loads(exif[IMAGE_DESCRIPTION].encode("latin-1").decode()) == METADATA
        assert exif[SOFTWARE] == "msd 0.1.0"
        difference = np.abs(np.asarray(read.convert("RGB"), np.int16) - made.pixels)
    assert difference.max() <= (0 if kind == "WEBP" else 6)


def test_a_png_has_a_chunk_for_each_item(tmp_path: Path) -> None:
    made = image()
    made.save(str(tmp_path / "a.PNG"))
    with Image.open(tmp_path / "a.PNG") as read:
        assert read.format == "PNG"
        np.testing.assert_array_equal(np.asarray(read), made.pixels)
        assert read.info == {
            "prompt": "naïve café 日本 🎨",
            "seed": "7",
            "guidance": "7.5",
            "remarks": "one\ntwo",
            "software": "msd 0.1.0",
        }


@pytest.mark.parametrize("suffix", [".jpg", ".webp"])
def test_the_longest_prompts_fit(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    image(prompt="🎨" * 20_000, negative_prompt="日" * 20_000, remarks=["ü" * 20_000] * 2).save(path)
    with Image.open(path) as read:
        found = json.loads(read.getexif()[IMAGE_DESCRIPTION].encode("latin-1").decode())
    assert found["prompt"] == "🎨" * 3000 + "…"
    assert found["remarks"] == ["ü" * 3000 + "…"] * 2


@pytest.mark.parametrize("name", ["a.gif", "a.bmp", "a.tiff", "a.jpg.txt", "a", "jpg", ".png"])
def test_other_suffixes_are_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    for refuse in (lambda: check_output(tmp_path / name, True), lambda: image().save(tmp_path / name)):
        with pytest.raises(BadConfig, match=r"images are written as \.png, \.jpg, \.jpeg, \.webp"):
            refuse()
    assert not [*tmp_path.iterdir()]


def test_a_pillow_without_webp_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "check", lambda name: name != "webp")
    with pytest.raises(BadConfig, match="WebP, which this Pillow was built without"):
        image().save(tmp_path / "a.webp")
    image().save(tmp_path / "a.jpg")


def test_saving_replaces_nothing_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    image().save(path)
    before = path.read_bytes()
    with pytest.raises(OutputExists):
        image(seed=8).save(path)
    assert path.read_bytes() == before
    image(seed=8).save(path, force=True)
    assert path.read_bytes() != before
