"""How far the demo's autoencoder in tiles is from the whole, and what would bring it nearer.

    python -m scripts.lab.measure_tiles -o docs/results/vae-tiles.json

Images of 128x128 are decoded by diffusers in float32, whole and in tiles of 96x96 that are joined as msd
joins them. "whole norms" are tiles whose group norms use the mean and variance of the whole image; the files
that msd writes cannot take them. "whole levels" are tiles of which each colour gets the mean and the
deviation of the whole image's own pixels there, the best that a correction of that kind could do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import numpy as np
import torch
from diffusers import AutoencoderKL

from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.models.demo import CHECKPOINT
from msd.models.demo.captions import scenes
from msd.models.demo.scenes import draw
from msd.run.runtime.tiles import Tiling, joined_rows
from scripts.figures import save_figures

SCALE, TILE = 8, 12
"""Pixels along the side of a latent cell, and cells along the side of a tile."""

Decode = Callable[[Array], Array]
Correct = Callable[[Array, tuple[slice, slice]], Array]


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--images", default=2, show_default=True)
def main(output: Path, images: int) -> None:
    """Write the distances of a number of images as JSON to OUTPUT, in dB."""
    torch.set_grad_enabled(False)
    vae = AutoencoderKL.from_pretrained(CHECKPOINT / "vae").float().eval()
    chosen = scenes("train")[:: len(scenes("train")) // images][:images]
    rows = [measured(vae, draw(scene, seed)) for seed, scene in enumerate(chosen)]
    save_figures(output, {"rows": rows}, "msd/run/runtime/tiles.py")
    for row in rows:
        click.echo(f"{row}", err=True)


def measured(vae: Any, picture: Array) -> dict[str, float]:
    """Return the distances of one picture's decodings from the whole one."""
    pixels = torch.from_numpy(picture.astype(np.float32) / 127.5 - 1).permute(2, 0, 1)[None]
    latents = vae.encode(pixels).latent_dist.mode().numpy()

    def decode(part: Array) -> Array:
        found: Array = vae.decode(torch.from_numpy(np.ascontiguousarray(part))).sample.numpy()
        return found

    norms = Norms()
    with patch.object(torch.nn.GroupNorm, "forward", lambda norm, x: norms.kept(norm, x)):
        whole = decode(latents)
    found = {
        "tiles": tiled(decode, latents, TILE // 4),
        "tiles that share three quarters": tiled(decode, latents, 3 * TILE // 4),
        "tiles, whole levels": tiled(
            decode, latents, TILE // 4, lambda tile, at: levelled(tile, whole[:, :, *at])
        ),
    }
    with patch.object(torch.nn.GroupNorm, "forward", lambda norm, x: norms.used(norm, x)):
        found["tiles, whole norms"] = tiled(decode, latents, TILE // 4)
    row = {name: distance(whole, image) for name, image in found.items()}
    small = decode(shrunk(latents, TILE))
    return row | {"smaller latents to a smaller image": distance(shrunk(whole, small.shape[-1]), small)}


class Norms:
    """The means and variances of the groups of every norm, in the order in which norms ran."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[Any, Any]] = {}

    def kept(self, norm: Any, x: Any) -> Any:
        """Return normalised values, and keep the moments."""
        groups = x.reshape(len(x), norm.num_groups, -1)
        self.found[id(norm)] = groups.mean(-1, keepdim=True), groups.var(-1, unbiased=False, keepdim=True)
        return self.used(norm, x)

    def used(self, norm: Any, x: Any) -> Any:
        """Return values normalised by the moments that were kept."""
        mean, variance = self.found[id(norm)]
        groups = (x.reshape(len(x), norm.num_groups, -1) - mean) / torch.sqrt(variance + norm.eps)
        channels = (1, -1, *(1,) * (x.dim() - 2))
        return groups.reshape(x.shape) * norm.weight.reshape(channels) + norm.bias.reshape(channels)


def tiled(decode: Decode, latents: Array, overlap: int, correct: Correct = lambda tile, at: tile) -> Array:
    """Return the image (1, 3, rows, columns) of tiles, each corrected by its place in pixels."""

    def run(rows: slice, columns: slice) -> Array:
        down, across = (slice(SCALE * each.start, SCALE * each.stop) for each in (rows, columns))
        corrected: Array = correct(decode(latents[:, :, rows, columns]), (down, across))
        turned: Array = corrected[0].transpose(1, 2, 0)
        return turned

    strips = joined_rows(latents.shape[2], latents.shape[3], Tiling(TILE, TILE, overlap), SCALE, run)
    return np.concatenate(list(strips)).transpose(2, 0, 1)[None]


def levelled(tile: Array, wanted: Array) -> Array:
    """Return a tile with the mean and the deviation of each colour of another."""
    moments = [(each.mean((2, 3), keepdims=True), each.std((2, 3), keepdims=True)) for each in (tile, wanted)]
    (mean, deviation), (wanted_mean, wanted_deviation) = moments
    levelled: Array = (tile - mean) / deviation * wanted_deviation + wanted_mean
    return levelled


def shrunk(planes: Array, side: int) -> Array:
    """Return planes of another size, whose cells are means."""
    small: Array = torch.nn.functional.interpolate(
        torch.from_numpy(planes), size=(side, side), mode="area"
    ).numpy()
    return small


def distance(whole: Array, image: Array) -> float:
    """Return the PSNR of an image."""
    return round(psnr(whole, image), 1)


if __name__ == "__main__":
    main()
