"""Measure the demo checkpoint with diffusers: generate images of held-back captions and score them.

    python scripts/lab/measure_demo.py --out docs/results

Writes demo-checkpoint.json (figures, captions, versions) and demo-checkpoint.png (a contact sheet).
"""

from __future__ import annotations

import platform
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw, ImageFont

from msd.models.demo import CHECKPOINT, score
from msd.models.demo.captions import captions, parse
from msd.models.demo.scorer import read
from scripts.figures import save_figures

Pictures = npt.NDArray[np.uint8]
_BATCH = 100
_COLUMNS = 8
_LABEL = 44


def draw(pipe: Any, texts: list[str], steps: int, guidance: float) -> Pictures:
    """Return one image for each caption, (N, 128, 128, 3) uint8; the i-th starts from noise of seed i."""
    blocks = []
    for first in range(0, len(texts), _BATCH):
        batch = texts[first : first + _BATCH]
        noise = [torch.Generator("cpu").manual_seed(first + i) for i in range(len(batch))]
        made = pipe(
            batch, num_inference_steps=steps, guidance_scale=guidance, generator=noise, output_type="np"
        )
        blocks.append((made.images * 255).round().astype(np.uint8))
    return np.concatenate(blocks)


def figures(pictures: Pictures, texts: list[str]) -> dict[str, Any]:
    """Return the mean score, the share of images with all attributes right, and each attribute's share."""
    scores = [score(picture, text) for picture, text in zip(pictures, texts, strict=True)]
    right: Counter[str] = Counter()
    for picture, text in zip(pictures, texts, strict=True):
        shown = read(picture)
        right.update(name for name, value in parse(text).items() if shown.get(name) == value)
    return {
        "score": round(float(np.mean(scores)), 4),
        "all_right": round(float(np.mean(np.array(scores) == 1)), 4),
        "attributes": {name: round(count / len(texts), 4) for name, count in sorted(right.items())},
    }


def sheet(pictures: Pictures, texts: list[str]) -> Image.Image:
    """Return the images in rows, each with its caption below."""
    side = pictures.shape[1]
    rows = -(-len(pictures) // _COLUMNS)
    page = Image.new("RGB", (_COLUMNS * (side + 4), rows * (side + _LABEL)), "white")
    brush, font = ImageDraw.Draw(page), ImageFont.load_default(size=9)
    for i, (picture, text) in enumerate(zip(pictures, texts, strict=True)):
        x, y = i % _COLUMNS * (side + 4), i // _COLUMNS * (side + _LABEL)
        page.paste(Image.fromarray(picture), (x, y))
        brush.text((x, y + side), "\n".join(textwrap.wrap(text, 26)[:4]), fill="black", font=font, spacing=0)
    return page


def conditions(device: str) -> dict[str, str]:
    """Return the machine and the versions behind the figures."""
    import diffusers
    import transformers

    chip = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return {
        "device": chip,
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "transformers": transformers.__version__,
    }


@click.command(help=__doc__)
@click.option("--checkpoint", type=click.Path(path_type=Path), default=CHECKPOINT, help="A diffusers folder.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the two files.")
@click.option("-n", "count", default=240, help="How many captions.")
@click.option("--seed", default=0, help="Chooses the captions.")
@click.option("--steps", default=20, help="DDIM steps.")
@click.option(
    "--guidance", "scales", multiple=True, default=(7.5,), help="Guidance; the first fills the sheet."
)
@click.option("--dtype", default="float32", type=click.Choice(["float32", "float16"]))
def main(
    checkpoint: Path, out: Path, count: int, seed: int, steps: int, scales: tuple[float, ...], dtype: str
) -> None:
    import diffusers

    device = "cuda" if torch.cuda.is_available() else "cpu"
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(
        checkpoint, dtype=getattr(torch, dtype), safety_checker=None
    ).to(device)
    pipe.set_progress_bar_config(disable=True)
    texts = captions("held-back", count, seed)
    results = {}
    for scale in scales:
        begun = time.monotonic()
        pictures = draw(pipe, texts, steps, scale)
        results[str(scale)] = figures(pictures, texts) | {"seconds": round(time.monotonic() - begun, 1)}
        click.echo(f"guidance {scale}: {results[str(scale)]}")
        if scale == scales[0]:
            shown = sheet(pictures[:48], texts[:48])
    out.mkdir(parents=True, exist_ok=True)
    shown.save(out / "demo-checkpoint.png", optimize=True)
    record = {
        "captions": {"split": "held-back", "count": count, "seed": seed, "first": texts[:48]},
        "sampler": {"name": "DDIM", "steps": steps, "dtype": dtype},
        "guidance": results,
        "versions": conditions(device),
    }
    save_figures(out / "demo-checkpoint.json", record, "msd/models/demo")


if __name__ == "__main__":
    main()
