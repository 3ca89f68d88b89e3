"""A generated image and its metadata, and the file that holds both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from msd.errors import BadConfig, OutputExists
from msd.files.atomic import atomic_write
from msd.files.names import can_be_path
from msd.files.targets import require_writable
from msd.run.runtime.arrays import Float, Pixels
from msd.run.runtime.image_file import format_of, write_image


@dataclass(frozen=True, eq=False)
class GeneratedImage:
    """`pixels`: uint8 (height, width, 3). `latents`: the final latents, float32 (1, height/8, width/8, 4).

    `metadata`: prompt, negative_prompt, seed, steps, guidance, scheduler, model … as JSON values.
    """

    pixels: Pixels
    latents: Float
    metadata: Mapping[str, Any]

    def save(self, path: str | Path, force: bool = False) -> None:
        """Write the image and its metadata to a .png, .jpg or .webp file (`save_image`)."""
        if not can_be_path(path):
            raise BadConfig(f"path is {path!r}; the path of a file was expected")
        save_image(self, Path(path), force)

    def _repr_png_(self) -> bytes:
        """Return the file that a notebook shows."""
        from PIL import Image

        stream = BytesIO()
        write_image(Image.fromarray(self.pixels), "PNG", self.metadata, stream)
        return stream.getvalue()


def image_paths(path: Path, seeds: Sequence[int]) -> list[Path]:
    """Return a file for each seed: `path` with the seed in place of `{seed}` in its name.

    Without `{seed}`, a single image keeps the name, and several get the seed before the suffix: "a-7.png".
    """
    name = path.name
    if "{seed}" not in name and len(seeds) > 1:
        name = f"{path.stem}-{{seed}}{path.suffix}"
    return [path.with_name(name.replace("{seed}", str(seed))) for seed in seeds]


def pixels(image: Float) -> Pixels:
    """Return uint8 of the same shape for an image in [-1, 1], rounded and clipped as diffusers does."""
    rounded: Pixels = np.round(np.clip(image / 2 + 0.5, 0, 1) * 255).astype(np.uint8)
    return rounded


def image_of(pixels: Pixels) -> Float:
    """Return pixels (height, width, 3) as float32 (1, height, width, 3) in [-1, 1], as diffusers does."""
    image: Float = pixels[None] / np.float32(127.5) - np.float32(1)
    return image


def save_image(image: GeneratedImage, path: Path, force: bool = False) -> None:
    """Write an image atomically, as a PNG, a JPEG or a WebP by the suffix, with its metadata in the file.

    Raises BadConfig for another suffix, OutputExists unless `force`, and OutputUnwritable.
    """
    from PIL import Image

    check_output(path, force)
    with atomic_write(path, force) as partial, partial.open("xb") as stream:
        write_image(Image.fromarray(image.pixels), format_of(path), image.metadata, stream)


def check_output(path: Path, force: bool) -> None:
    """Raise BadConfig, OutputExists or OutputUnwritable where `save_image` would, before it is generated."""
    format_of(path)
    require_writable(path, force=True)
    if path.exists() and not force:
        raise OutputExists(f"{path} exists; choose another name or give --force")
