"""Train a second model of the demo's scenes, to measure on another checkpoint: Stable Diffusion 1's shape.

    python -m scripts.lab.train_second_demo --state STATE --out FOLDER

Its VAE and tokenizer are the demo's; its text encoder and U-Net are others, and the U-Net predicts v. Six
minutes on an H200. It does not ship.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import torch

from msd.models.demo import CHECKPOINT
from msd.models.demo.scenes import Picture
from scripts.lab.demo_training import architecture, autoencoding, data, export, vocabulary
from scripts.lab.demo_training.loop import TrainingRun
from scripts.lab.demo_training.recipe import Stage, TrainingRecipe
from scripts.lab.train_demo import second_stage, versions

TEXT_WIDTH = 96
FULL = TrainingRecipe(
    scenes=60_000,
    autoencoder=Stage(steps=0, batch=1, rate=1e-3, warmup=1, average=0.0),
    denoiser=Stage(steps=3_200, batch=1024, rate=1e-3, warmup=300, average=0.999),
    seed=1,
)
SMOKE = TrainingRecipe(
    scenes=8,
    autoencoder=FULL.autoencoder,
    denoiser=Stage(steps=2, batch=4, rate=1e-3, warmup=1, average=0.5),
)


def unet() -> Any:
    """Return the U-Net: 8 heads at every level and projections by convolutions, as in Stable Diffusion 1."""
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=architecture.LATENT,
        in_channels=4,
        out_channels=4,
        block_out_channels=(64, 96, 128, 128),
        down_block_types=("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
        up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
        layers_per_block=2,
        attention_head_dim=8,
        cross_attention_dim=TEXT_WIDTH,
        norm_num_groups=32,
        act_fn="silu",
    )


def text_encoder(tokens: int) -> Any:
    """Return the text encoder: four layers with CLIP's own GELU."""
    from transformers import CLIPTextConfig, CLIPTextModel

    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=tokens,
            hidden_size=TEXT_WIDTH,
            intermediate_size=4 * TEXT_WIDTH,
            projection_dim=TEXT_WIDTH,
            num_hidden_layers=4,
            num_attention_heads=4,
            max_position_embeddings=vocabulary.LENGTH,
            hidden_act="quick_gelu",
            bos_token_id=tokens - 2,
            eos_token_id=tokens - 1,
            pad_token_id=tokens - 1,
        )
    )


def latents_of(vae: Any, pictures: Picture, run: TrainingRun) -> Any:
    """Return the latents (N, 4, 16, 16) of images (N, 128, 128, 3), as the U-Net sees them."""
    blocks = torch.from_numpy(pictures).split(4000)
    found = torch.cat([autoencoding.latents(vae, block.to(run.device)) for block in blocks])
    return found * vae.config.scaling_factor


def make(recipe: TrainingRecipe, out: Path, run: TrainingRun) -> None:
    """Train the networks and write the checkpoint to `out`."""
    from diffusers import AutoencoderKL, DDIMScheduler
    from transformers import CLIPTokenizer

    run.folder.mkdir(parents=True, exist_ok=True)
    tokenizer = CHECKPOINT / "tokenizer"
    vae = AutoencoderKL.from_pretrained(CHECKPOINT / "vae", torch_dtype=torch.float32).to(run.device)
    described = data.describe(recipe)
    pictures = data.pictures(described.scenes)
    run.say(f"{len(pictures)} scenes drawn")
    latents = latents_of(vae, pictures, run)
    torch.manual_seed(recipe.seed)
    words = len(CLIPTokenizer.from_pretrained(tokenizer))
    parts = torch.nn.ModuleDict({"unet": unet(), "text_encoder": text_encoder(words)})
    scheduler = DDIMScheduler.from_config(architecture.scheduler().config, prediction_type="v_prediction")
    seconds = second_stage(parts, scheduler, latents, described, tokenizer, recipe, run)
    record = {"recipe": asdict(recipe), "seconds": round(seconds), "versions": versions(run.device)}
    export.write({"vae": vae, **dict(parts.items())}, scheduler, tokenizer, record, out)


@click.command(help=__doc__)
@click.option("--state", type=click.Path(path_type=Path), required=True, help="Folder for the state files.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the checkpoint.")
@click.option("--smoke", is_flag=True, help="A few steps, to try the code.")
def main(state: Path, out: Path, smoke: bool) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    run = TrainingRun(state, device, float("inf"), lambda line: click.echo(f"{time.strftime('%X')} {line}"))
    make(SMOKE if smoke else FULL, out, run)


if __name__ == "__main__":
    main()
