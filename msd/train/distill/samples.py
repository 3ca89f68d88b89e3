"""Images of a student while it learns, and a plot of its losses."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from msd.files.atomic import atomic_write
from msd.train.distill.levels import timesteps
from msd.train.distill.networks import Networks
from msd.train.distill.passes import Points, clean_and_noise, output_of
from msd.train.distill.student import Student

COLUMNS = 4
PROMPTS = 8
"""The number of prompts whose images a sheet of samples shows."""


def sample(networks: Networks, student: Student, ids: Any, scale: float, steps: int) -> Any:
    """Return the final latents (N, C, H, W) of one pass a step, for ids (N, tokens) and seeds from 0."""
    device, shape = networks.device, networks.latent_shape
    noise = [np.random.default_rng(seed).standard_normal(shape, np.float32) for seed in range(len(ids))]
    at = torch.zeros(len(ids), dtype=torch.long, device=device)
    scales = torch.full((len(ids),), scale, device=device)
    latents = torch.from_numpy(np.stack(noise)).to(device)
    points = Points(latents=latents, timesteps=at, ids=ids, scales=scales)
    conditions = networks.conditions(ids)
    with torch.no_grad():
        for now, after in pairwise(timesteps(networks.diffusion, steps)):
            points = points.moved(points.latents, torch.full_like(at, now))
            pair = clean_and_noise(
                networks.levels, student.prediction, points, output_of(student.unet, points, conditions)
            )
            points = points.moved(networks.levels.at(torch.full_like(at, after), *pair), at)
    return points.latents


def save_sheet(images: Any, path: Path) -> None:
    """Write uint8 images (N, height, width, 3) in rows to a PNG file; raises OutputUnwritable."""
    count, height, width, _ = images.shape
    rows = -(-count // COLUMNS)
    sheet = Image.new("RGB", (min(count, COLUMNS) * width, rows * height), "white")
    for i, image in enumerate(images.numpy()):
        sheet.paste(Image.fromarray(image), (i % COLUMNS * width, i // COLUMNS * height))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        sheet.save(temporary, format="PNG")


def save_losses(log: Path, path: Path) -> None:
    """Plot the losses in a stage's log to a PNG file; raises OutputUnwritable."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    axes.semilogy([line["update"] for line in lines], [line["loss"] for line in lines])
    axes.set_title(lines[0]["stage"])
    axes.set_xlabel("update")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("loss")
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
