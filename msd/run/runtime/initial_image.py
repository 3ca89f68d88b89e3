"""The image that generation begins from, and the mask of what to repaint, fitted to a model's size.

Pixels and masks become what diffusers' VaeImageProcessor makes of them for its image-to-image and inpainting
pipelines: Lanczos resampling, values in [-1, 1], a mask of zeros and ones.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from msd.errors import BadConfig, BadImage
from msd.files import bounded
from msd.files.wording import listed
from msd.run.runtime.arrays import Float
from msd.run.runtime.image import image_of

if TYPE_CHECKING:
    from PIL.Image import Image

Fit = Literal["crop", "stretch"]
"""Crop the centre to the model's aspect ratio before resizing, or distort the whole image to it."""

SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I")
"""Pillow's modes for images of 16 bits per pixel; it opens those of 16 bits per channel as 8 bits.

"I" is 32 bits. Older versions open grey PNGs of 16 bits so; in a TIFF it is 32 bits, or 16 with a sign.
"""

FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "GIF", "BMP")
"""Pillow reads more; EPS with a program of its own, which runs what is in the file."""

UNSUPPORTED = ("F",)
DEPTH = "it should have 8 or 16 bits per channel"
MOST_PIXELS = 50_000_000
"""Of an image or a mask; several copies of them are in memory at once."""

MOST_SCANS = 100
"""Of a JPEG; progressive ones have some ten. A scan of a few bytes takes as long as one of all pixels."""

JPEG_BYTES = 1 << 28

logging.getLogger("PIL").addHandler(logging.NullHandler())  # what is wrong with an image is in our error


@dataclass(frozen=True, eq=False)
class InitialImage:
    """`pixels`: float32 (1, height, width, 3) in [-1, 1]. `mask`: float32 (1, height, width, 1), or None.

    The mask is 1 where the image is repainted and 0 where it is kept. `description` says what was done to the
    file.
    """

    pixels: Float
    mask: Float | None
    description: str


def open_initial_image(
    path: Path, height: int, width: int, fit: Fit = "crop", mask: Path | None = None
) -> InitialImage:
    """Read an image file, and a mask for it, fitted to `height` by `width` pixels; raises BadImage.

    The image is turned as its EXIF orientation says; transparent pixels are laid over white. The mask has
    the image's size, counts by its brightness, and is fitted in the same way; what is transparent in it is
    not marked, whatever its colour: it is laid over black. Raises BadConfig for another `fit`.
    """
    if fit not in get_args(Fit):
        raise BadConfig(f"fit is {fit!r}; it should be {listed(get_args(Fit), 'or')}")
    image = _read(path)
    size, target = image.pixels.size, (width, height)
    box = _box(size, target, fit)
    pixels = image_of(np.asarray(_resize(_rgb(image.pixels, path, "white"), box, target)))
    description = _description(image, path, box, target)
    if mask is None:
        return InitialImage(pixels, None, description)
    layer = _read(mask)
    area = _mask(layer.pixels, mask, path, size, box, target)
    return InitialImage(pixels, area, f"{description}; mask {mask.name}{_remarks(layer, 'not repainted')}")


def _mask(
    image: Image,
    path: Path,
    of: Path,
    size: tuple[int, int],
    box: tuple[int, int, int, int],
    target: tuple[int, int],
) -> Float:
    if image.size != size:
        raise BadImage(f"{path} has {_pixels(image.size)} and {of} has {_pixels(size)}; they should be equal")
    grey = _resize(_rgb(image, path, "black").convert("L"), box, target)
    mask = (np.asarray(grey, np.float32) / 255 >= 0.5).astype(np.float32)
    if not mask.any():
        raise BadImage(
            f"{path} has no opaque white pixel where the image is used; white says what to repaint"
        )
    return mask[None, ..., None]


@dataclass(frozen=True, eq=False)
class _Frame:
    """The first frame of an image file, upright, and how many frames the file has."""

    pixels: Image
    frames: int

    @property
    def is_transparent(self) -> bool:
        """Whether any pixel is not opaque."""
        if not self.pixels.has_transparency_data:
            return False
        return bool((np.asarray(self.pixels.convert("RGBA").getchannel("A")) < 255).any())


def _remarks(frame: _Frame, transparent: str) -> str:
    """Return what is said of a file's frames and its transparent pixels, which are `transparent`."""
    frames = f", the first of {frame.frames} frames" if frame.frames > 1 else ""
    return f"{frames}, transparent pixels {transparent}" if frame.is_transparent else frames


def _read(path: Path) -> _Frame:
    """Return the first frame of an image file, upright."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings(), Image.open(path, formats=FORMATS) as image:
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            if image.width * image.height > MOST_PIXELS:
                raise BadImage(f"{path} has {_pixels(image.size)}, and at most {MOST_PIXELS} in all are read")
            if image.format == "TIFF" and image.mode == "I":
                raise BadImage(f"{path} has pixels of 32 bits, or with a sign; {DEPTH}")
            _require_few_scans(path, image)
            frames = getattr(image, "n_frames", 1)
            image.seek(0)
            image.load()
            return _Frame(_eight_bit(ImageOps.exif_transpose(image)), frames)
    except UnidentifiedImageError as error:
        raise BadImage(f"{path} is no image that can be read; {', '.join(FORMATS)} can") from error
    except Image.DecompressionBombError as error:
        raise BadImage(f"{path} has too many pixels: {error}") from error
    except MemoryError as error:
        raise BadImage(f"{path} says that it needs more memory than there is") from error
    except (OSError, ValueError, SyntaxError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadImage(f"{path} cannot be read: {reason}") from error


def _require_few_scans(path: Path, image: Image) -> None:
    """Raise BadImage for a JPEG whose pixels are gone through more often than `MOST_SCANS`."""
    if image.format in ("JPEG", "MPO"):
        scans = bounded.read_bytes(path, JPEG_BYTES).count(b"\xff\xda")
        if scans > MOST_SCANS:
            raise BadImage(f"{path} has {scans} scans, and at most {MOST_SCANS} of a JPEG are read")


def _rgb(image: Image, path: Path, ground: str) -> Image:
    """Return an image of 8 bits per channel in RGB; transparent pixels are laid over the colour `ground`."""
    from PIL import Image

    if image.mode in UNSUPPORTED:
        raise BadImage(f"{path} has pixels of mode {image.mode}; {DEPTH}")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, ground), layer)
    return image.convert("RGB")


def _eight_bit(image: Image) -> Image:
    """Return a grey image of 16 bits in 8; the value that a PNG names as transparent stays so.

    Others are returned as they are.
    """
    from PIL import Image

    if image.mode not in SIXTEEN_BIT:
        return image
    values = np.asarray(image)
    grey = Image.fromarray(np.clip(np.round(values.astype(np.float32) / 257), 0, 255).astype(np.uint8))
    if isinstance(key := image.info.get("transparency"), int):
        grey = grey.convert("LA")
        grey.putalpha(Image.fromarray(np.where(values == key, 0, 255).astype(np.uint8)))
    return grey


def _box(size: tuple[int, int], target: tuple[int, int], fit: Fit) -> tuple[int, int, int, int]:
    """Return the part (left, top, right, bottom) of an image of `size` that is resized to `target`."""
    (width, height), (wide, high) = size, target
    if fit == "stretch":
        return (0, 0, width, height)
    scale = min(width / wide, height / high)
    across, down = max(1, round(wide * scale)), max(1, round(high * scale))
    left, top = (width - across) // 2, (height - down) // 2
    return (left, top, left + across, top + down)


def _resize(image: Image, box: tuple[int, int, int, int], target: tuple[int, int]) -> Image:
    from PIL import Image

    return image.crop(box).resize(target, Image.Resampling.LANCZOS)


def _description(frame: _Frame, path: Path, box: tuple[int, int, int, int], target: tuple[int, int]) -> str:
    size, part = frame.pixels.size, (box[2] - box[0], box[3] - box[1])
    remarks = _remarks(frame, "laid over white")
    cropped = "" if part == size else f", cropped to {_pixels(part)}"
    resized = "" if part == target else f", resized to {_pixels(target)}"
    return f"{path.name}: {_pixels(size)}{remarks}{cropped}{resized}"


def _pixels(size: tuple[int, int]) -> str:
    return f"{size[0]}×{size[1]} pixels"
