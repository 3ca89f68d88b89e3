"""Train a ControlNet of the demo, which draws a scene along given edges, and measure it with diffusers.

    python -m scripts.lab.train_demo_control --state STATE --out FOLDER

Writes FOLDER as diffusers does, in float16, with training.json: the recipe, and how well the edges of images
of held-back captions are those asked for, with the ControlNet and without. Minutes on one GPU.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from msd.models.demo import CHECKPOINT, score
from msd.models.demo.captions import caption, scenes
from msd.models.demo.scenes import Picture, draw
from scripts.lab.demo_training import architecture, data, export, steering, vocabulary
from scripts.lab.demo_training.loop import TrainingRun
from scripts.lab.demo_training.recipe import Stage, TrainingRecipe
from scripts.lab.edge_overlap import REACH, overlap
from scripts.lab.train_demo import versions
from scripts.lab.train_second_demo import latents_of

STEPS, GUIDANCE, BATCH = 20, 7.5, 40
FULL = TrainingRecipe(
    scenes=60_000,
    autoencoder=Stage(steps=0, batch=1, rate=1e-3, warmup=1, average=0.0),
    denoiser=Stage(steps=4_000, batch=512, rate=6e-4, warmup=200, average=0.998),
    seed=2,
    empty_captions=0.3,
)
SMOKE = TrainingRecipe(
    scenes=8,
    autoencoder=FULL.autoencoder,
    denoiser=Stage(steps=2, batch=4, rate=1e-3, warmup=1, average=0.5),
    seed=2,
)


def held_back(count: int, seed: int = 7) -> list[tuple[str, Picture]]:
    """Return captions of held-back scenes, each with the edges (128, 128) of a drawing of its scene."""
    rng = random.Random(seed)
    chosen = rng.sample(scenes("held-back"), count)
    return [(caption(scene, rng), data.edges_of(draw(scene, i))) for i, scene in enumerate(chosen)]


def generate(pipe: Any, asked: list[tuple[str, Picture]], scale: float) -> Picture:
    """Return one image for each caption, (N, 128, 128, 3); the i-th starts from noise of seed i."""
    blocks = []
    for first in range(0, len(asked), BATCH):
        texts, edges = zip(*asked[first : first + BATCH], strict=True)
        made = pipe(
            list(texts),
            image=steering.as_hint(torch.from_numpy(np.stack(edges))),
            controlnet_conditioning_scale=scale,
            num_inference_steps=STEPS,
            guidance_scale=GUIDANCE,
            generator=[torch.Generator("cpu").manual_seed(first + i) for i in range(len(texts))],
            output_type="np",
        )
        blocks.append((made.images * 255).round().astype(np.uint8))
    return np.concatenate(blocks)


def figures(pictures: Picture, asked: list[tuple[str, Picture]]) -> dict[str, float]:
    """Return how far the images' edges are those asked for, and how many of the captions' attributes show."""
    found = [overlap(data.edges_of(each), edges) for each, (_, edges) in zip(pictures, asked, strict=True)]
    exact = [overlap(data.edges_of(each), edges, 0) for each, (_, edges) in zip(pictures, asked, strict=True)]
    scores = [score(each, text) for each, (text, _) in zip(pictures, asked, strict=True)]
    return {
        f"overlap within {REACH} pixel": round(float(np.mean(found)), 4),
        "smallest": round(min(found), 4),
        "overlap to the pixel": round(float(np.mean(exact)), 4),
        "attributes": round(float(np.mean(scores)), 4),
    }


def judge(controlnet: Any, device: str, count: int) -> dict[str, Any]:
    """Return the figures of `count` images with the ControlNet, and of as many without, in float32."""
    from diffusers import StableDiffusionControlNetPipeline

    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    pipe = StableDiffusionControlNetPipeline.from_pretrained(
        CHECKPOINT, controlnet=controlnet, dtype=torch.float32, safety_checker=None
    ).to(device)
    pipe.set_progress_bar_config(disable=True)
    asked = held_back(count)
    return {
        "images": count,
        "sampler": f"DDIM, {STEPS} steps, guidance {GUIDANCE}",
        "with": figures(generate(pipe, asked, 1.0), asked),
        "without": figures(generate(pipe, asked, 0.0), asked),
    }


def frozen() -> Any:
    """Return the demo's U-Net and text encoder in float32."""
    from diffusers import UNet2DConditionModel
    from transformers import CLIPTextModel

    return torch.nn.ModuleDict(
        {
            "unet": UNet2DConditionModel.from_pretrained(CHECKPOINT / "unet", dtype=torch.float32),
            "text_encoder": CLIPTextModel.from_pretrained(CHECKPOINT / "text_encoder", dtype=torch.float32),
        }
    )


def trained(recipe: TrainingRecipe, run: TrainingRun) -> tuple[Any, float]:
    """Return the trained ControlNet and the seconds that its training took."""
    from diffusers import AutoencoderKL

    described = data.describe(recipe)
    drawn = data.pictures(described.scenes)
    run.say(f"{len(drawn)} scenes drawn")
    edges = torch.from_numpy(data.edges(drawn)).to(run.device)
    run.say(f"{edges.float().mean():.2%} of their pixels are edges")
    vae = AutoencoderKL.from_pretrained(CHECKPOINT / "vae", dtype=torch.float32).to(run.device)
    latents = latents_of(vae, drawn, run)
    texts = [text for several in described.captions for text in several]
    tokenizer = CHECKPOINT / "tokenizer"
    ids = torch.from_numpy(data.token_ids(texts, tokenizer)).view(recipe.scenes, -1, vocabulary.LENGTH)
    empty = torch.from_numpy(data.token_ids([""], tokenizer))[0]
    parts = frozen()
    torch.manual_seed(recipe.seed)
    made = steering.controlnet(parts["unet"])
    seen, words = (latents, edges), (ids.to(run.device), empty.to(run.device))
    return made, steering.fit(made, parts, seen, words, architecture.scheduler(), recipe, run)


def make(recipe: TrainingRecipe, out: Path, run: TrainingRun, count: int) -> None:
    """Train the ControlNet, write it to `out`, and add how well it does."""
    run.folder.mkdir(parents=True, exist_ok=True)
    made, seconds = trained(recipe, run)
    export.write_model(made, out)
    found = judge(made.eval(), run.device, count)
    run.say(json.dumps(found))
    record = {"recipe": asdict(recipe), "seconds": round(seconds), **found, "versions": versions(run.device)}
    (out / "training.json").write_text(json.dumps(record, indent=2) + "\n")


@click.command(help=__doc__)
@click.option("--state", type=click.Path(path_type=Path), required=True, help="Folder for the state files.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the ControlNet.")
@click.option("--smoke", is_flag=True, help="A few steps, to try the code.")
@click.option("-n", "count", default=200, show_default=True, help="How many images to judge.")
def main(state: Path, out: Path, smoke: bool, count: int) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    run = TrainingRun(state, device, float("inf"), lambda line: click.echo(f"{time.strftime('%X')} {line}"))
    make(SMOKE if smoke else FULL, out, run, count)


if __name__ == "__main__":
    main()
