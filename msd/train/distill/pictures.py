"""Pictures with captions to learn from in place of trajectories: their latents with fresh noise.

Salimans and Ho (2022, arXiv 2202.00512) and Luo et al. (2023, arXiv 2310.04378) train on data in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from msd.bundle import file_facts
from msd.errors import BadCalibration, BadCheckpoint
from msd.files import bounded
from msd.files.atomic import atomic_write
from msd.files.fingerprint import fingerprint
from msd.models.families.stable_diffusion import VAE_ENCODER
from msd.run.runtime.initial_image import open_initial_image
from msd.train.distill.levels import Levels
from msd.train.distill.networks import Networks
from msd.train.distill.passes import Points, sent
from msd.train.distill.settings import ScaleRange
from msd.train.distill.trajectories import UNPROMPTED

CAPTIONS = "metadata.jsonl"
"""A line of JSON for each image, {"file_name": …, "text": …}, as Hugging Face's datasets have it."""

CAPTION_BYTES = 1 << 30


@dataclass(frozen=True)
class CaptionedImages:
    """Image files and the caption of each."""

    files: tuple[Path, ...]
    captions: tuple[str, ...]

    @property
    def key(self) -> str:
        """A fingerprint of all files and captions."""
        return fingerprint([[file_facts(path).sha256 for path in self.files], self.captions])


@dataclass(frozen=True)
class Pictures:
    """Latents (N, C, H, W) of pictures as a source of points.

    `ids` (N + 1, tokens) end with the empty prompt's. `guidance` and `timesteps` are those of
    `TrajectoryPlan`. Without guidance, one caption in `UNPROMPTED` is left out.
    """

    latents: Any
    ids: Any
    guidance: ScaleRange | None
    timesteps: Sequence[int]
    levels: Levels
    device: str

    def on_grid(self, random: Any, size: int, steps: int) -> tuple[Points, Any]:
        """Return random points at the timesteps of `steps` steps, and the number of each one's step (B,)."""
        stride = (len(self.timesteps) - 1) // steps
        step = torch.randint(steps, (size,), generator=random)
        return self._points(random, torch.tensor(self.timesteps)[step * stride]), sent(step, self.device)

    def anywhere(self, random: Any, size: int, among: Sequence[int] | None = None) -> Points:
        """Return random points at any timesteps, or `among` these."""
        choice = torch.arange(self.timesteps[0] + 1) if among is None else torch.tensor(among)
        return self._points(random, choice[torch.randint(len(choice), (size,), generator=random)])

    def _points(self, random: Any, at: Any) -> Points:
        which = torch.randint(len(self.latents), at.shape, generator=random)
        noise = torch.randn(len(at), *self.latents.shape[1:], generator=random)
        clean = torch.from_numpy(self.latents[which.numpy()])
        left_out = torch.randint(UNPROMPTED, at.shape, generator=random) == 0
        share = torch.rand(at.shape, generator=random)
        least, most = (self.guidance.least, self.guidance.most) if self.guidance else (1.0, 1.0)
        if self.guidance is None:
            which = torch.where(left_out, len(self.ids) - 1, which)
        at = sent(at, self.device)
        latents = self.levels.at(at, sent(clean, self.device), sent(noise, self.device))
        scales = sent(least + share * (most - least), self.device)
        ids = sent(self.ids[which], self.device)
        return Points(latents=latents, timesteps=at, ids=ids, scales=scales)


def read_captioned(folder: Path) -> CaptionedImages:
    """Return the images that the `CAPTIONS` of a folder names; raises BadCalibration for a bad line of it."""
    path = folder / CAPTIONS
    try:
        lines = [line for line in bounded.read_text(path, CAPTION_BYTES).splitlines() if line.strip()]
    except (OSError, ValueError) as problem:
        raise BadCalibration(f"{path} cannot be read: {problem}") from problem
    if not lines:
        raise BadCalibration(f"{path} names no image")
    pairs = [_pair(folder, number, line) for number, line in enumerate(lines, 1)]
    return CaptionedImages(tuple(file for file, _ in pairs), tuple(caption for _, caption in pairs))


def _pair(folder: Path, number: int, line: str) -> tuple[Path, str]:
    place = f"line {number} of {folder / CAPTIONS}"
    try:
        facts = bounded.parse_json(line)
    except ValueError as problem:
        raise BadCalibration(f"{place} is not JSON: {problem}") from problem
    name, text = (facts.get("file_name"), facts.get("text")) if isinstance(facts, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(text, str):
        raise BadCalibration(f'{place} should be {{"file_name": "…", "text": "…"}}')
    file = folder / name
    if not file.is_file() or not file.resolve().is_relative_to(folder.resolve()):
        raise BadCalibration(f"{place} names {name!r}, which is no file in {folder}")
    return file, text


def encode_pictures(
    networks: Networks, captioned: CaptionedImages, path: Path, on_progress: Callable[[int, int], None]
) -> None:
    """Write float32 latents (N, C, H, W) of images to `path`, unless it exists: means of the VAE's encoder.

    Each is cropped and resized as `msd generate --image` does. Raises BadImage, BadCheckpoint for a
    checkpoint without the encoder, and OutputUnwritable.
    """
    if VAE_ENCODER.name not in networks.checkpoint.weights:
        raise BadCheckpoint(f"{networks.folder} has no {VAE_ENCODER.title}, which pictures need")
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    found = []
    for number, file in enumerate(captioned.files, 1):
        found.append(_latents(networks, file))
        on_progress(number, len(captioned.files))
    with atomic_write(path) as temporary, temporary.open("wb") as stream:
        np.save(stream, np.concatenate(found))


def _latents(networks: Networks, file: Path) -> Any:
    _, rows, columns = networks.latent_shape
    scale = 2 ** (len(networks.vae.config.block_out_channels) - 1)
    pixels = open_initial_image(file, rows * scale, columns * scale).pixels
    image = torch.from_numpy(pixels).permute(0, 3, 1, 2).to(networks.device)
    with torch.no_grad():
        mean = networks.vae.encode(image).latent_dist.mean
    return (mean * networks.vae.config.scaling_factor).float().cpu().numpy()
