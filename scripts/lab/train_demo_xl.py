"""Train a small Stable Diffusion XL of the demo's scenes, and measure it with diffusers.

    python -m scripts.lab.train_demo_xl --state STATE --out FOLDER --seconds 270

Its autoencoder and tokenizers are the demo's; its two text encoders and its U-Net, which is told the image's
sizes, are others. Writes FOLDER as diffusers does, in float16, with training.json: the recipe, and how many
of held-back captions' attributes the images show. Seven minutes on an H100.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
import torch

from msd.models.demo import CHECKPOINT
from msd.models.demo.captions import captions
from scripts.lab.demo_training import data, export, vocabulary, xl_architecture, xl_denoising
from scripts.lab.demo_training.framing import framed
from scripts.lab.demo_training.loop import TrainingRun
from scripts.lab.demo_training.recipe import Stage, TrainingRecipe
from scripts.lab.demo_xl_checkpoint import add_shared
from scripts.lab.measure_demo import draw, figures
from scripts.lab.train_demo import versions
from scripts.lab.train_second_demo import latents_of

ENCODERS = "text_encoder", "text_encoder_2"
FULL = TrainingRecipe(
    scenes=80_000,
    autoencoder=Stage(steps=0, batch=1, rate=1e-3, warmup=1, average=0.0),
    denoiser=Stage(steps=12_000, batch=1024, rate=1e-3, warmup=300, average=0.999),
    seed=3,
)
SMOKE = TrainingRecipe(
    scenes=60,
    autoencoder=FULL.autoencoder,
    denoiser=Stage(steps=2, batch=4, rate=1e-3, warmup=1, average=0.5),
    seed=3,
)


def write(parts: Any, folder: Path) -> None:
    """Write the trained parts, and what they share with the demo, as diffusers does."""
    export.write_model(parts["unet"], folder / "unet")
    for name in ENCODERS:
        export.write_text_encoder(parts[name], folder / name)
    add_shared(folder)


def judge(folder: Path, count: int, steps: int, device: str) -> dict[str, Any]:
    """Return what `measure_demo` finds in images of held-back captions, by guidance, in float32."""
    from diffusers import StableDiffusionXLPipeline

    pipe = StableDiffusionXLPipeline.from_pretrained(folder, dtype=torch.float32).to(device)
    pipe.set_progress_bar_config(disable=True)
    texts = captions("held-back", count, 0)
    return {str(scale): figures(draw(pipe, texts, steps, scale), texts) for scale in (7.5, 3.0)}


def prepared(recipe: TrainingRecipe, run: TrainingRun) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return the scenes' latents and sizes, and the captions' ids and the empty caption's."""
    from diffusers import AutoencoderKL

    vae = AutoencoderKL.from_pretrained(CHECKPOINT / "vae", torch_dtype=torch.float32).to(run.device)
    described = data.describe(recipe)
    drawn = torch.from_numpy(data.pictures(described.scenes)).to(run.device)
    run.say(f"{len(drawn)} scenes drawn")
    pictures, sizes = framed(drawn, recipe.seed)
    latents = latents_of(vae, pictures.cpu().numpy(), run)
    texts = [text for several in described.captions for text in several]
    ids = torch.from_numpy(data.token_ids([*texts, ""], CHECKPOINT / "tokenizer")).to(run.device)
    run.say("latents and tokens")
    scenes = latents, sizes.to(run.device)
    return scenes, (ids[:-1].view(recipe.scenes, -1, vocabulary.LENGTH), ids[-1])


def make(recipe: TrainingRecipe, out: Path, run: TrainingRun, seconds: float, asked: int, steps: int) -> None:
    """Train the networks, write them to `out`, and judge them by `asked` captions in `steps` steps."""
    from transformers import CLIPTokenizer

    run.folder.mkdir(parents=True, exist_ok=True)
    scenes, texts = prepared(recipe, run)
    torch.manual_seed(recipe.seed)
    words = len(CLIPTokenizer.from_pretrained(CHECKPOINT / "tokenizer"))
    made = {name: getattr(xl_architecture, name)(words) for name in ENCODERS}
    parts = torch.nn.ModuleDict({**made, "unet": xl_architecture.unet()})
    stage, spent = xl_denoising.fit(parts, scenes, texts, xl_architecture.scheduler(), recipe, run, seconds)
    write(parts, out)
    found = judge(out, asked, steps, run.device)
    run.say(json.dumps(found))
    record = {
        "recipe": asdict(replace(recipe, denoiser=stage)),
        "seconds": round(spent),
        "quality": {"captions": asked, "steps": steps, "guidance": found},
        "versions": versions(run.device),
    }
    (out / "training.json").write_text(json.dumps(record, indent=2) + "\n")


@click.command(help=__doc__)
@click.option("--state", type=click.Path(path_type=Path), required=True, help="Folder for the state files.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the checkpoint.")
@click.option("--seconds", default=270.0, help="For training the networks, compiling included.")
@click.option("-n", "count", default=240, help="How many captions to judge by.")
@click.option("--smoke", is_flag=True, help="A few steps, to try the code.")
def main(state: Path, out: Path, seconds: float, count: int, smoke: bool) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    run = TrainingRun(state, device, float("inf"), lambda line: click.echo(f"{time.strftime('%X')} {line}"))
    make(SMOKE if smoke else FULL, out, run, seconds, 2 if smoke else count, 2 if smoke else 20)


if __name__ == "__main__":
    main()
