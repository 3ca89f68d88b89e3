"""Image files as Chromium reads them for the page: the pixels that Pillow reads, upright."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

from msd.run.runtime.initial_image import open_initial_image
from tests.web.arrays import levels
from tests.web.browser import PATIENCE, launched
from tests.web.node import SITE
from tests.web.server import served

READ = """async (files) => {
  const { readPhoto } = await import('/msd/photo.js');
  const shown = async (file) => {
    const context = new OffscreenCanvas(1, 1).getContext('2d');
    context.drawImage(await createImageBitmap(file), 0, 0);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const sent = (bytes) => {
    let text = '';
    for (const byte of bytes) text += String.fromCharCode(byte);
    return btoa(text);
  };
  return Promise.all(files.map(async ([name, text]) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    try {
      const file = new File([bytes], name);
      const { rgba, width, height, name: found } = await readPhoto(file);
      return { rgba: sent(rgba), width, height, name: found, shown: await shown(file) };
    } catch ({ code, message }) {
      return `${code}: ${message}`;
    }
  }));
}"""


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    """A page of Chromium from which the site's modules can be imported."""
    with served(SITE) as address, launched(webgpu=False) as browser:
        opened = browser.new_page()
        opened.set_default_timeout(PATIENCE)
        opened.goto(f"{address}/msd/photo.js")
        yield opened


def colours(height: int, width: int, channels: int = 3) -> np.ndarray:
    """Return smooth uint8 pixels without an axis of symmetry."""
    rows, columns = np.mgrid[:height, :width]
    waves = [np.sin(rows / (3 + c)) + np.cos(columns / (5 + c)) for c in range(channels)]
    return np.stack([(wave + 2) * 63.75 for wave in waves], -1).astype(np.uint8)


def read(page: Any, *files: tuple[str, bytes]) -> list[Any]:
    found: list[Any] = page.evaluate(READ, [[name, base64.b64encode(data).decode()] for name, data in files])
    return found


def written(image: Image.Image, kind: str = "PNG", **settings: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **settings)
    return stream.getvalue()


def rgba_of(found: dict[str, Any]) -> np.ndarray:
    return levels(found["rgba"]).reshape(found["height"], found["width"], 4)


def test_pixels_are_those_of_the_file_whatever_its_colours_mean(page: Any) -> None:
    """`msd generate` does not read profiles of colours either."""
    pixels = colours(31, 50)
    pixels[0, 0] = 250, 10, 10
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    swapped = profile.replace(b"rXYZ", b"?XYZ").replace(b"bXYZ", b"rXYZ").replace(b"?XYZ", b"bXYZ")
    grey = Image.fromarray(pixels[..., 0])
    plain, profiled, one = read(
        page,
        ("plain.png", written(Image.fromarray(pixels))),
        ("profile.png", written(Image.fromarray(pixels), icc_profile=swapped)),
        ("grey.png", written(grey)),
    )
    for found in (plain, profiled):
        assert np.array_equal(rgba_of(found)[..., :3], pixels)
        assert (rgba_of(found)[..., 3] == 255).all()
    assert plain["shown"][:3] == [250, 10, 10]
    assert profiled["shown"][:3] != [250, 10, 10]
    assert np.array_equal(rgba_of(one)[..., :3], pixels[..., :1].repeat(3, -1))
    assert (plain["width"], plain["height"], plain["name"]) == (50, 31, "plain.png")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_is_turned_as_its_camera_was_held(orientation: int, page: Any, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = written(Image.fromarray(colours(30, 50)), exif=exif)
    (tmp_path / "a.png").write_bytes(data)
    (found,) = read(page, ("a.png", data))
    wanted = open_initial_image(tmp_path / "a.png", found["height"], found["width"]).pixels[0]
    assert (found["width"] > found["height"]) == (orientation < 5)
    assert np.array_equal(rgba_of(found)[..., :3], np.rint((wanted + 1) * 127.5).astype(np.uint8))


def test_what_is_transparent_stays_so(page: Any) -> None:
    """A canvas keeps colours multiplied by their alpha, so that half transparent ones lose a level or two."""
    pixels = colours(31, 50, 4)
    pixels[:, :10, 3] = 0
    pixels[:, 10:20, 3] = 255
    (found,) = read(page, ("a.png", written(Image.fromarray(pixels))))
    rgba = rgba_of(found)
    assert np.array_equal(rgba[..., 3], pixels[..., 3])
    assert np.array_equal(rgba[:, 10:20], pixels[:, 10:20])
    shown = rgba[..., 3:].astype(int) > 100
    assert np.abs((rgba.astype(int) - pixels) * shown).max() <= 2


def test_files_that_are_no_images_are_refused(page: Any) -> None:
    large = written(Image.new("L", (10_000, 5_001)), optimize=True)
    assert read(page, ("a.txt", b"no image"), ("none.png", b""), ("large.png", large)) == [
        "bad-request: a.txt is no image that this browser can read",
        "bad-request: none.png is no image that this browser can read",
        "bad-request: large.png has 10000×5001 pixels, and at most 50000000 in all are read",
    ]
