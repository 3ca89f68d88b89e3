"""Train the demo checkpoint: draw scenes, fit the VAE, then U-Net and text encoder, and write the folder.

    python scripts/lab/train_demo.py --state STATE --out msd/models/demo/checkpoint

One GPU is enough (minutes); `--smoke` runs all of the code on a CPU. After an interruption, the same
command resumes from the last file in STATE.
"""

from __future__ import annotations

import platform
import random
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from msd.models.demo.captions import scenes
from msd.models.demo.scenes import draw
from msd.models.demo.scorer import read
from scripts.lab.demo_training import architecture, autoencoding, data, denoising, export, vocabulary
from scripts.lab.demo_training.loop import OutOfTime, TrainingRun, load, save
from scripts.lab.demo_training.recipe import FULL, SMOKE, TrainingRecipe


def versions(device: str) -> dict[str, str]:
    """Return the settings that the figures of a run depend on."""
    import diffusers
    import transformers

    chip = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return {
        "device": chip,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "transformers": transformers.__version__,
    }


def judge(vae: Any, device: str, n: int) -> dict[str, float]:
    """Return PSNR (dB) of held-back scenes through the VAE, and the share of attributes still readable."""
    chosen = random.Random(1).sample(scenes("held-back"), n)
    drawn = np.stack([draw(scene, i) for i, scene in enumerate(chosen)])
    pictures = torch.from_numpy(drawn).to(device)
    seen = autoencoding.decoded(vae, autoencoding.latents(vae, pictures)).cpu().numpy()
    error = np.mean((seen.astype(np.float64) - drawn) ** 2)
    right = [
        read(picture).get(key) == value
        for picture, scene in zip(seen, chosen, strict=True)
        for key, value in asdict(scene).items()
    ]
    return {
        "psnr_db": round(float(20 * np.log10(255 / np.sqrt(error))), 2),
        "readable": float(np.mean(right)),
    }


def first_stage(
    vae: Any, described: data.Captioned, recipe: TrainingRecipe, run: TrainingRun
) -> dict[str, Any]:
    """Return the scenes' latents and the VAE's figures, from their file if it exists."""
    path = run.folder / "latents.pt"
    kept: dict[str, Any] | None = load(path, run.device)
    if kept is not None:
        vae.load_state_dict(kept.pop("vae"))
        vae.to(run.device)
        return kept
    begun = time.monotonic()
    pictures = torch.from_numpy(data.pictures(described.scenes)).to(run.device)
    run.say(f"{len(pictures)} scenes drawn in {time.monotonic() - begun:.0f} s")
    seconds = autoencoding.fit(vae, pictures, recipe, run)
    figures = judge(vae, run.device, min(256, recipe.scenes)) | {"seconds": round(seconds)}
    run.say(f"autoencoder: {figures}")
    means = autoencoding.latents(vae, pictures)
    kept = {"latents": means, "scaling": float(1 / means.std()), "figures": figures}
    save(kept | {"vae": vae.state_dict()}, path)
    return kept


def second_stage(
    parts: Any,
    scheduler: Any,
    latents: Any,
    described: data.Captioned,
    folder: Path,
    recipe: TrainingRecipe,
    run: TrainingRun,
) -> float:
    """Train U-Net and text encoder on scaled latents (N, 4, 16, 16); return the seconds that it took.

    `folder` has the tokenizer.
    """
    texts = [text for several in described.captions for text in several]
    ids = torch.from_numpy(data.token_ids(texts, folder)).view(recipe.scenes, -1, vocabulary.LENGTH)
    empty = torch.from_numpy(data.token_ids([""], folder))[0].to(run.device)
    return denoising.fit(parts, latents, ids.to(run.device), empty, scheduler, recipe, run)


def make(recipe: TrainingRecipe, out: Path, run: TrainingRun) -> None:
    """Run both stages and write the checkpoint to `out`."""
    run.folder.mkdir(parents=True, exist_ok=True)
    tokenizer = run.folder / "tokenizer"
    words = data.vocabulary()
    vocabulary.write(words, tokenizer)
    described = data.describe(recipe)
    torch.manual_seed(recipe.seed)
    vae = architecture.autoencoder()
    first = first_stage(vae, described, recipe, run)
    torch.manual_seed(recipe.seed)
    parts = torch.nn.ModuleDict(
        {"unet": architecture.unet(), "text_encoder": architecture.text_encoder(len(words.tokens))}
    )
    latents, scheduler = first["latents"] * first["scaling"], architecture.scheduler()
    seconds = second_stage(parts, scheduler, latents, described, tokenizer, recipe, run)
    record = {
        "recipe": asdict(recipe),
        "autoencoder": first["figures"],
        "denoiser": {"seconds": round(seconds)},
        "versions": versions(run.device),
    }
    vae.register_to_config(scaling_factor=first["scaling"])
    export.write({"vae": vae, **dict(parts.items())}, scheduler, tokenizer, record, out)


@click.command(help=__doc__)
@click.option("--state", type=click.Path(path_type=Path), required=True, help="Folder for the state files.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the checkpoint.")
@click.option("--smoke", is_flag=True, help="A few steps, to try the code.")
@click.option(
    "--stop-after", type=float, default=float("inf"), help="Seconds after which to stop and keep the state."
)
def main(state: Path, out: Path, smoke: bool, stop_after: float) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    run = TrainingRun(state, device, time.monotonic() + stop_after, lambda line: click.echo(line, err=True))
    try:
        make(SMOKE if smoke else FULL, out, run)
    except OutOfTime as stopped:
        click.echo(f"{stopped}; run the same command again to go on", err=True)
        sys.exit(75)


if __name__ == "__main__":
    main()
