"""An image file of a camera or an editor becomes the pixels and the mask that diffusers feeds."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from msd.errors import BadImage
from msd.run.runtime.initial_image import open_initial_image

HEIGHT, WIDTH = 24, 40


def colours(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Return smooth uint8 pixels, so that resampling does not hide a shift."""
    rows, columns = np.mgrid[:height, :width]
    waves = [np.sin(rows / (3 + c + seed)) + np.cos(columns / (5 - c + seed)) for c in range(channels)]
    return np.stack([(wave + 2) * 63.75 for wave in waves], -1).astype(np.uint8)


def write(pixels: np.ndarray, path: Path, **settings: object) -> Path:
    Image.fromarray(pixels).save(path, **settings)
    return path


def by_diffusers(path: Path, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    from diffusers.image_processor import VaeImageProcessor

    processed = VaeImageProcessor(vae_scale_factor=8).preprocess(Image.open(path), height, width)
    return processed.permute(0, 2, 3, 1).numpy()


@pytest.mark.parametrize("size", [(HEIGHT, WIDTH), (HEIGHT * 3, WIDTH * 3), (HEIGHT * 2, WIDTH * 2)])
def test_pixels_are_those_that_diffusers_feeds(size: tuple[int, int], tmp_path: Path) -> None:
    path = write(colours(*size), tmp_path / "a.png")
    image = open_initial_image(path, HEIGHT, WIDTH)
    assert image.pixels.dtype == np.float32
    np.testing.assert_allclose(image.pixels, by_diffusers(path), atol=1e-6)


def test_stretching_is_what_diffusers_does_to_another_aspect_ratio(tmp_path: Path) -> None:
    path = write(colours(90, 50), tmp_path / "a.png")
    image = open_initial_image(path, HEIGHT, WIDTH, "stretch")
    np.testing.assert_allclose(image.pixels, by_diffusers(path), atol=1e-6)
    assert image.description == "a.png: 50×90 pixels, resized to 40×24 pixels"


def test_cropping_keeps_the_centre_at_its_aspect_ratio(tmp_path: Path) -> None:
    pixels = colours(HEIGHT * 2, WIDTH * 3)
    image = open_initial_image(write(pixels, tmp_path / "wide.png"), HEIGHT, WIDTH)
    centre = write(pixels[:, WIDTH // 2 : -WIDTH // 2], tmp_path / "centre.png")
    np.testing.assert_allclose(image.pixels, by_diffusers(centre), atol=1e-6)
    assert image.description == "wide.png: 120×48 pixels, cropped to 80×48 pixels, resized to 40×24 pixels"


@given(st.tuples(st.integers(1, 90), st.integers(1, 90)), st.sampled_from(["crop", "stretch"]))
def test_every_size_fits(size: tuple[int, int], fit: str) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = write(colours(*size), Path(folder) / "a.png")
        image = open_initial_image(path, HEIGHT, WIDTH, fit)  # type: ignore[arg-type]
    assert image.pixels.shape == (1, HEIGHT, WIDTH, 3)
    assert image.pixels.min() >= -1
    assert image.pixels.max() <= 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_is_turned_as_its_camera_was_held(orientation: int, tmp_path: Path) -> None:
    turns = {2: (Image.Transpose.FLIP_LEFT_RIGHT,), 3: (Image.Transpose.ROTATE_180,)}
    turns |= {4: (Image.Transpose.FLIP_TOP_BOTTOM,), 5: (Image.Transpose.TRANSPOSE,)}
    turns |= {6: (Image.Transpose.ROTATE_270,), 7: (Image.Transpose.TRANSVERSE,)}
    turns |= {8: (Image.Transpose.ROTATE_90,)}
    stored = Image.fromarray(colours(30, 50))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "photo.png", exif=exif)
    upright = stored
    for turn in turns.get(orientation, ()):
        upright = upright.transpose(turn)
    upright.save(tmp_path / "upright.png")
    found = open_initial_image(tmp_path / "photo.png", HEIGHT, WIDTH)
    np.testing.assert_array_equal(
        found.pixels, open_initial_image(tmp_path / "upright.png", HEIGHT, WIDTH).pixels
    )


def test_transparent_pixels_are_white(tmp_path: Path) -> None:
    pixels = np.dstack([colours(HEIGHT, WIDTH), np.full((HEIGHT, WIDTH), 255, np.uint8)])
    pixels[:, :20, 3] = 0
    pixels[:, 20:30, 3] = 128
    image = open_initial_image(write(pixels, tmp_path / "a.png"), HEIGHT, WIDTH).pixels[0]
    np.testing.assert_array_equal(image[:, :20], 1)
    half = (pixels[:, 20:30, :3] * 128.0 + 255 * 127) / 255
    np.testing.assert_allclose((image[:, 20:30] + 1) * 127.5, half, atol=1)
    np.testing.assert_allclose((image[:, 30:] + 1) * 127.5, pixels[:, 30:, :3], atol=1e-4)


def test_sixteen_bit_grey_keeps_its_tones(tmp_path: Path) -> None:
    grey = colours(HEIGHT, WIDTH, 1)[..., 0]
    path = tmp_path / "a.png"
    Image.fromarray(grey.astype(np.uint16) * 257).save(path)
    image = open_initial_image(path, HEIGHT, WIDTH).pixels[0]
    for channel in range(3):
        np.testing.assert_allclose((image[..., channel] + 1) * 127.5, grey, atol=1e-4)


def test_the_transparent_value_of_sixteen_bit_grey_is_laid_over_white(tmp_path: Path) -> None:
    grey = np.full((HEIGHT, WIDTH), 25700, np.uint16)
    grey[:, :20] = 4660
    grey[:, 20:40] = 4661  # equal in 8 bits, and not transparent
    path = tmp_path / "a.png"
    Image.fromarray(grey).save(path, transparency=4660)
    found = open_initial_image(path, HEIGHT, WIDTH)
    assert found.description.endswith("transparent pixels laid over white")
    for columns, value in ((slice(20), 255), (slice(20, 40), 18), (slice(40, None), 100)):
        np.testing.assert_allclose((found.pixels[0, :, columns] + 1) * 127.5, value, atol=1e-4)
    mask = open_initial_image(path, HEIGHT, WIDTH, mask=write_mask(tmp_path)).mask
    assert mask is not None
    assert (mask[0, :, :20].any(), mask[0, :, 20:].all()) == (False, True)


def write_mask(folder: Path) -> Path:
    """White everywhere, the left columns transparent by their value, in 16 bits."""
    white = np.full((HEIGHT, WIDTH), 65535, np.uint16)
    white[:, :20] = 65534
    Image.fromarray(white).save(folder / "m.png", transparency=65534)
    return folder / "m.png"


def test_integers_of_32_bits_are_refused(tmp_path: Path) -> None:
    """No file says what their white is: 255 would be black."""
    path = tmp_path / "a.tif"
    Image.fromarray(colours(HEIGHT, WIDTH, 1)[..., 0].astype(np.int32)).save(path)
    with pytest.raises(
        BadImage, match=r"a\.tif has pixels of 32 bits, or with a sign; it should have 8 or 16"
    ):
        open_initial_image(path, HEIGHT, WIDTH)


@pytest.mark.parametrize("mode", ["L", "LA", "P", "CMYK", "1", "RGBA"])
def test_every_mode_is_read_as_pillow_shows_it(mode: str, tmp_path: Path) -> None:
    shown = Image.fromarray(colours(HEIGHT, WIDTH)).convert(mode)
    path = tmp_path / ("a.tiff" if mode == "CMYK" else "a.png")
    shown.save(path)
    image = open_initial_image(path, HEIGHT, WIDTH).pixels[0]
    expected = np.asarray(Image.open(path).convert("RGB"), np.float32)
    np.testing.assert_allclose((image + 1) * 127.5, expected, atol=1e-4)


def test_the_mask_is_the_one_that_diffusers_makes(tmp_path: Path) -> None:
    from diffusers.image_processor import VaeImageProcessor

    path = write(colours(72, 120), tmp_path / "a.png")
    mask = write(colours(72, 120, 1, seed=2)[..., 0], tmp_path / "m.png")
    image = open_initial_image(path, HEIGHT, WIDTH, mask=mask)
    processor = VaeImageProcessor(
        vae_scale_factor=8, do_normalize=False, do_binarize=True, do_convert_grayscale=True
    )
    expected = processor.preprocess(Image.open(mask), HEIGHT, WIDTH).permute(0, 2, 3, 1).numpy()
    assert 0 < expected.mean() < 1
    assert image.mask is not None
    np.testing.assert_array_equal(image.mask, expected)
    assert image.description.endswith("; mask m.png")


def layers(folder: Path) -> tuple[Path, Path]:
    """A photo, and white strokes on a transparent layer: two columns, one half transparent and one nearly."""
    path = write(colours(HEIGHT, WIDTH), folder / "a.png")
    layer = np.full((HEIGHT, WIDTH, 4), 255, np.uint8)
    layer[..., 3] = 0
    layer[:, 5:9, 3] = 255
    layer[:, 20:23, 3] = 130
    layer[:, 30:33, 3] = 120
    return path, write(layer, folder / "layer.png")


def test_what_is_transparent_in_a_mask_is_kept(tmp_path: Path) -> None:
    path, layer = layers(tmp_path)
    image = open_initial_image(path, HEIGHT, WIDTH, mask=layer)
    assert image.mask is not None
    marked = image.mask[0, :, :, 0]
    assert np.flatnonzero(marked.all(0)).tolist() == [5, 6, 7, 8, 20, 21, 22]
    assert marked.sum() == 7 * HEIGHT
    assert image.description.endswith("; mask layer.png, transparent pixels not repainted")


@pytest.mark.parametrize("mode", ["LA", "P", "RGBA"])
def test_masks_of_every_mode_with_transparency_are_alike(mode: str, tmp_path: Path) -> None:
    path = write(colours(HEIGHT, WIDTH), tmp_path / "a.png")
    marked = np.zeros((HEIGHT, WIDTH), np.uint8)
    marked[3:9, 10:30] = 255
    white = Image.new("LA", (WIDTH, HEIGHT), (255, 255))
    white.putalpha(Image.fromarray(marked))
    mask = tmp_path / "m.png"
    if mode == "P":  # the colour of palette entry 1 is white, and it is transparent
        layer = Image.fromarray((marked == 0).astype(np.uint8)).convert("P")
        layer.putpalette([255, 255, 255] * 2)
        layer.save(mask, transparency=1)
    else:
        white.convert(mode).save(mask)
    found = open_initial_image(path, HEIGHT, WIDTH, mask=mask).mask
    assert found is not None
    np.testing.assert_array_equal(found[0, :, :, 0], marked / 255)


def test_an_opaque_layer_is_described_like_one_without_alpha(tmp_path: Path) -> None:
    pixels = np.dstack([colours(HEIGHT, WIDTH), np.full((HEIGHT, WIDTH), 255, np.uint8)])
    path = write(pixels, tmp_path / "a.png")
    image = open_initial_image(path, HEIGHT, WIDTH, mask=path)
    assert image.description == f"a.png: {WIDTH}×{HEIGHT} pixels; mask a.png"
    pixels[3, 4, 3] = 254
    image = open_initial_image(write(pixels, path), HEIGHT, WIDTH)
    assert image.description == f"a.png: {WIDTH}×{HEIGHT} pixels, transparent pixels laid over white"


def test_the_first_of_several_frames_is_read_and_said(tmp_path: Path) -> None:
    first, second = (Image.new("RGB", (WIDTH, HEIGHT), colour) for colour in ("red", "blue"))
    for name in ("a.gif", "a.webp", "a.tiff"):
        path = tmp_path / name
        first.save(path, save_all=True, append_images=[second], lossless=True)
        image = open_initial_image(path, HEIGHT, WIDTH)
        assert image.description == f"{name}: {WIDTH}×{HEIGHT} pixels, the first of 2 frames"
        np.testing.assert_array_equal(image.pixels, np.broadcast_to([1.0, -1, -1], image.pixels.shape))


def test_files_that_are_no_images_are_refused(tmp_path: Path) -> None:
    good = write(colours(30, 30), tmp_path / "good.png")
    text = tmp_path / "a.txt"
    text.write_text("no image")
    cut = tmp_path / "cut.png"
    cut.write_bytes(good.read_bytes()[:200])
    floats = tmp_path / "floats.tiff"
    Image.fromarray(np.zeros((9, 9), np.float32)).save(floats)
    refusals = {
        text: "no image that can be read",
        cut: "cannot be read",
        tmp_path: "cannot be read",
        tmp_path / "nowhere.png": "cannot be read: No such file",
        floats: "mode F",
    }
    for path, words in refusals.items():
        with pytest.raises(BadImage, match=words):
            open_initial_image(path, HEIGHT, WIDTH)


def test_no_program_is_run_for_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow hands EPS to Ghostscript, which runs what is in the file."""
    path = tmp_path / "a.png"
    Image.new("RGB", (9, 9)).save(path, "EPS")
    monkeypatch.setattr("subprocess.check_call", lambda *_, **__: pytest.fail("a program is run"))
    with pytest.raises(BadImage, match="no image that can be read; PNG, JPEG, WEBP, TIFF, GIF, BMP can"):
        open_initial_image(path, HEIGHT, WIDTH)


def test_a_damaged_image_prints_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.tiff"
    Image.new("RGB", (9, 9)).save(path)
    samples = struct.pack("<HHI", 277, 3, 1)
    assert path.read_bytes().count(samples + b"\3\0") == 1
    path.write_bytes(path.read_bytes().replace(samples + b"\3\0", samples + b"\0\x10"))
    program = "import sys; from pathlib import Path; from msd.run.runtime.initial_image import *\n"
    program += "try: open_initial_image(Path(sys.argv[1]), 9, 9)\nexcept BadImage: print('refused')"
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("refused\n", "")


def test_a_jpeg_of_many_scans_is_refused(tmp_path: Path) -> None:
    """Each scan of some twenty bytes took as long as decoding all pixels."""
    path = tmp_path / "a.jpg"
    Image.new("RGB", (40, 30), "red").save(path, progressive=True)
    content = path.read_bytes()
    scan = content[content.rindex(b"\xff\xda") : -2]
    path.write_bytes(content[:-2] + scan * 90 + content[-2:])
    assert open_initial_image(path, HEIGHT, WIDTH).pixels.shape == (1, HEIGHT, WIDTH, 3)
    path.write_bytes(content[:-2] + scan * 91 + content[-2:])
    with pytest.raises(BadImage, match="has 101 scans, and at most 100 of a JPEG are read"):
        open_initial_image(path, HEIGHT, WIDTH)


def test_an_image_of_too_many_pixels_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(colours(30, 30), tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 400)
    with pytest.raises(BadImage, match="too many pixels"):
        open_initial_image(path, HEIGHT, WIDTH)


def test_masks_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = write(colours(30, 30), tmp_path / "a.png")
    other = write(colours(30, 31), tmp_path / "m.png")
    with pytest.raises(BadImage, match=r"m.png has 31×30 pixels and .*a.png has 30×30 pixels"):
        open_initial_image(path, HEIGHT, WIDTH, mask=other)
    black = write(np.zeros((30, 30), np.uint8), tmp_path / "black.png")
    with pytest.raises(BadImage, match="no opaque white pixel"):
        open_initial_image(path, HEIGHT, WIDTH, mask=black)
    hidden = write(np.full((30, 30, 4), (255, 255, 255, 0), np.uint8), tmp_path / "hidden.png")
    with pytest.raises(BadImage, match="no opaque white pixel"):
        open_initial_image(path, HEIGHT, WIDTH, mask=hidden)
