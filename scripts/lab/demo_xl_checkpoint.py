"""Write the small Stable Diffusion XL of the demo's scenes as a folder that diffusers and msd-convert read.

    python -m scripts.lab.demo_xl_checkpoint build/demo-xl

The trained networks are scripts/demo_xl; what they share with the demo is added.
"""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from msd.models.demo import CHECKPOINT
from scripts.lab.demo_training import vocabulary, xl_architecture

TRAINED = Path(__file__).parent.parent / "demo_xl"
INDEX = {
    "_class_name": "StableDiffusionXLPipeline",
    "_diffusers_version": version("diffusers"),
    "force_zeros_for_empty_prompt": True,
    "scheduler": ["diffusers", "EulerDiscreteScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "text_encoder_2": ["transformers", "CLIPTextModelWithProjection"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "tokenizer_2": ["transformers", "CLIPTokenizer"],
    "unet": ["diffusers", "UNet2DConditionModel"],
    "vae": ["diffusers", "AutoencoderKL"],
}


def write(folder: Path) -> None:
    """Write the whole checkpoint to `folder`, which does not exist yet; it appears when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".", dir=folder.parent) as place:
        made = shutil.copytree(TRAINED, Path(place) / folder.name)
        add_shared(made)
        made.rename(folder)


def add_shared(folder: Path) -> None:
    """Write what is not trained: the demo's autoencoder, its tokenizer twice, the scheduler and the index."""
    shutil.copytree(CHECKPOINT / "vae", folder / "vae", dirs_exist_ok=True)
    for name, padding in (("tokenizer", vocabulary.END), ("tokenizer_2", vocabulary.PAD)):
        shutil.copytree(CHECKPOINT / "tokenizer", folder / name, dirs_exist_ok=True)
        for file in ("special_tokens_map.json", "tokenizer_config.json"):
            settings = json.loads((folder / name / file).read_text()) | {"pad_token": padding}
            (folder / name / file).write_text(json.dumps(settings, indent=2) + "\n")
    xl_architecture.scheduler().save_config(folder / "scheduler")
    (folder / "model_index.json").write_text(json.dumps(INDEX, indent=2) + "\n")


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path))
def main(folder: Path) -> None:
    if folder.exists():
        raise click.UsageError(f"{folder} exists; name a folder that does not")
    write(folder)


if __name__ == "__main__":
    main()
