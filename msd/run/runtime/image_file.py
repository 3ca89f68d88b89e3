"""The file of a generated image: PNG, JPEG or WebP by its suffix, with the metadata inside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from msd.errors import BadConfig

if TYPE_CHECKING:
    from PIL.Image import Exif, Image

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
"""Pillow's name of the format by the suffix of the file."""

QUALITY = 95
"""Of a JPEG, whose colours keep their full resolution."""

IMAGE_DESCRIPTION, SOFTWARE = 0x010E, 0x0131
"""Tags of EXIF 2.32; the description holds the metadata as JSON in UTF-8."""

LONGEST = 3000
"""Letters of a text in EXIF, of which a JPEG holds 64 kB; a longer one is cut and ends in …."""

COLOURS_OF_EACH_PIXEL = 0
"""Pillow's `subsampling` for 4:4:4."""


def format_of(path: Path) -> str:
    """Return Pillow's name of an image file's format; raises BadConfig for one that cannot be written."""
    if (suffix := path.suffix.lower()) not in FORMATS:
        ending = f"ends in {suffix!r}" if suffix else "has no suffix"
        raise BadConfig(f"{path} {ending}; images are written as {', '.join(FORMATS)}")
    if FORMATS[suffix] == "WEBP":
        _require_webp(path)
    return FORMATS[suffix]


def _require_webp(path: Path) -> None:
    from PIL import features

    if not features.check("webp"):
        raise BadConfig(f"{path} should be a WebP, which this Pillow was built without; choose .png or .jpg")


def write_image(image: Image, kind: str, metadata: Mapping[str, Any], stream: BinaryIO) -> None:
    """Write an image in Pillow's format `kind`: a PNG has a text chunk for each item of the metadata.

    JPEG and WebP have all of it as JSON in EXIF's ImageDescription. A WebP is lossless.
    """
    if kind == "PNG":
        _write_png(image, metadata, stream)
    elif kind == "JPEG":
        subsampling = COLOURS_OF_EACH_PIXEL
        image.save(stream, kind, quality=QUALITY, subsampling=subsampling, exif=_exif(metadata))
    else:
        image.save(stream, kind, lossless=True, exif=_exif(metadata))


def _write_png(image: Image, metadata: Mapping[str, Any], stream: BinaryIO) -> None:
    from PIL import PngImagePlugin

    chunks = PngImagePlugin.PngInfo()
    for key, value in metadata.items():
        text = "\n".join(map(str, value)) if isinstance(value, list) else str(value)
        chunks.add_itxt(key, text.encode("utf-8", "backslashreplace").decode("utf-8"))
    image.save(stream, "PNG", pnginfo=chunks)


def _exif(metadata: Mapping[str, Any]) -> Exif:
    from PIL import Image

    exif = Image.Exif()
    text = json.dumps(_shortened(dict(metadata)), ensure_ascii=False)
    exif[IMAGE_DESCRIPTION] = text.encode("utf-8", "backslashreplace")
    exif[SOFTWARE] = str(metadata.get("software", "msd"))
    return exif


def _shortened(value: Any) -> Any:
    """Return a JSON value with its long texts cut."""
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items()}
    if isinstance(value, list):
        return [*map(_shortened, value)]
    return f"{value[:LONGEST]}…" if isinstance(value, str) and len(value) > LONGEST else value
