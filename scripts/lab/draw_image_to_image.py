"""Make the image in docs/image-to-image.md from a folder of the demo checkpoint with its image encoder.

    msd-convert -o demo-image --also vae_encoder
    python -m scripts.lab.draw_image_to_image demo-image

docs/images/image-to-image.png shows, from left to right, the image of the README, two images that begin from
it, at strengths of 0.5 and 0.8, and one in which only the left half is repainted.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import numpy as np
from PIL import Image

import msd

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
SIDE = 256
STEPS = 10
CHANGES = (
    ("two blue stars on the left over a striped blue background", 0.5, False),
    ("three yellow stars on the right over a plain green background", 0.8, False),
    ("one green star on the left over a plain blue background", 1.0, True),
)
"""The prompt of each image, its strength, and whether it is masked."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def main(folder: Path) -> None:
    """Write the image with the bundle in FOLDER."""
    start = IMAGES / "demo.png"
    shown = [Image.open(start).convert("RGB")]
    with tempfile.TemporaryDirectory() as temporary:
        mask = Path(temporary) / "mask.png"
        pixels = np.zeros((shown[0].height, shown[0].width), np.uint8)
        pixels[:, : shown[0].width // 2] = 255
        Image.fromarray(pixels).save(mask)
        for prompt, strength, masked in CHANGES:
            image = msd.generate(
                folder,
                prompt,
                steps=STEPS,
                image=start,
                mask=mask if masked else None,
                strength=strength,
            )
            shown.append(Image.fromarray(image.pixels))
    sheet = Image.new("RGB", (SIDE * len(shown), SIDE))
    for i, each in enumerate(shown):
        sheet.paste(each.resize((SIDE, SIDE)), (SIDE * i, 0))
    sheet.save(IMAGES / "image-to-image.png", optimize=True)


if __name__ == "__main__":
    main()
