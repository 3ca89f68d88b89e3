"""Stable Diffusion XL's images that begin from an image, and of textual inversions, against diffusers."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import msd
from msd.bundle import open_bundle
from msd.graph.parity import psnr
from msd.run.runtime.initial_image import open_initial_image
from msd.run.runtime.noise import noise, posterior_noise
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.scheduler import make_scheduler
from msd.run.runtime.step import StepTable
from tests import xl_checkpoints
from tests.begun_images import source
from tests.drawings import KINDS, nchw, nhwc, noise_given, noise_taken
from tests.late import diffusers
from tests.schedulers import diffusers_class

SIZE, SHAPE, SEED = (16, 24), (1, 8, 12, 4), 5
TRAILING = {"timestep_spacing": "trailing"}
ZERO_SNR = {"prediction_type": "v_prediction", "rescale_betas_zero_snr": True}


@dataclass(frozen=True)
class Case:
    """A scheduler, changes of its settings, and an image to ask for; `runs` is how often the U-Net runs."""

    scheduler: str
    steps: int
    strength: float
    runs: int
    guidance: float = 1.0
    masked: bool = False
    changes: tuple[tuple[str, Any], ...] = ()


CASES = {
    "LCM": Case("lcm", 4, 0.5, 2),
    "Turbo": Case("euler-a", 2, 0.75, 1, masked=True, changes=(*TRAILING.items(),)),
    "Lightning": Case("euler", 4, 0.3, 1, changes=(*TRAILING.items(),)),
    "Lightning, all of it": Case("euler", 2, 1.0, 2, masked=True, changes=(*TRAILING.items(),)),
    "DPM-Solver++": Case("dpm++", 6, 0.99, 5, guidance=5.0, masked=True),
    "velocity": Case("ddim", 5, 0.8, 4, guidance=3.0, changes=(*TRAILING.items(), *ZERO_SNR.items())),
}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, diffusers.StableDiffusionXLPipeline]:
    """A checkpoint, and a textual inversion of two vectors for both text encoders."""
    folder = tmp_path_factory.mktemp("xl-image")
    pipeline = xl_checkpoints.write(folder / "xl")
    random = torch.Generator().manual_seed(3)
    vectors = {
        each: torch.randn(2, width, generator=random) for each, width in (("clip_l", 48), ("clip_g", 32))
    }
    save_file(vectors, folder / "cat.safetensors")
    for each, end in (("clip_l", ""), ("clip_g", "_2")):
        own = {name: getattr(pipeline, f"{name}{end}") for name in ("text_encoder", "tokenizer")}
        pipeline.load_textual_inversion(vectors[each], token="<cat>", **own)
    return folder, pipeline


@pytest.fixture(scope="module")
def ours(theirs: tuple[Path, diffusers.StableDiffusionXLPipeline]) -> Pipeline:
    height, width = SIZE
    options: dict[str, Any] = {"recipe": "float32", "also": ["vae_encoder"], "height": height, "width": width}
    options["embeddings"] = [(theirs[0] / "cat.safetensors", "<cat>")]
    msd.convert(theirs[0] / "xl", theirs[0] / "out", **options)
    return Pipeline(open_bundle(theirs[0] / "out"), execution="resident")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_images_are_diffusers(
    case: Case, ours: Pipeline, theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    config = {k: v for k, v in {**theirs[1].scheduler.config, **dict(case.changes)}.items() if k[0] != "_"}
    ours.scheduler = make_scheduler(config, case.scheduler, {})
    table = ours.scheduler.table(case.steps, case.strength)
    assert len(table.steps) == case.runs
    image, mask = source(tmp_path, SIZE)
    asked: dict[str, Any] = {"strength": case.strength, "negative_prompt": "blurry"}
    opened = open_initial_image(image, *SIZE, mask=mask if case.masked else None)
    own = {"image": opened, "steps": case.steps, "guidance": case.guidance, "seed": SEED}
    made = ours.generate("a red dog!", **asked, **own, **({"paste": False} if case.masked else {}))
    wanted, timesteps = of_diffusers(case, theirs[1], config, table, image, mask, asked)
    assert timesteps == pytest.approx([step.timestep for step in table.steps], abs=1e-3)
    assert psnr(wanted, made.latents) >= 60


@pytest.mark.parametrize(("prompt", "negative"), [("a <cat>", "red"), ("red", "a <cat> " * 40)])
def test_textual_inversions_are_diffusers(
    prompt: str, negative: str, ours: Pipeline, theirs: tuple[Path, diffusers.StableDiffusionXLPipeline]
) -> None:
    """Its configuration has the end token 2, as public ones: the pooled vector is the largest id's state."""
    start = noise(SEED, SHAPE)
    ours.scheduler = make_scheduler(theirs[1].scheduler.config, "euler", {})
    made = ours.generate(prompt, negative_prompt=negative, steps=3, guidance=5.0, latents=start)
    settings = {"num_inference_steps": 3, "guidance_scale": 5.0, "output_type": "latent"}
    settings |= {"height": SIZE[0], "width": SIZE[1], "latents": nchw(start)}
    wanted = theirs[1](prompt, negative_prompt=negative, **settings).images
    assert psnr(nhwc(wanted), made.latents) >= 60


def of_diffusers(
    case: Case,
    pipeline: diffusers.StableDiffusionXLPipeline,
    config: dict[str, Any],
    table: StepTable,
    image: Path,
    mask: Path,
    asked: dict[str, Any],
) -> tuple[np.ndarray, list[float]]:
    """Return diffusers' last latents from our noise, NHWC, and the timesteps that its U-Net ran at."""
    kind = "Inpaint" if case.masked else "Img2Img"
    parts = {k: v for k, v in pipeline.components.items() if k not in ("image_encoder", "feature_extractor")}
    parts["scheduler"] = diffusers_class(KINDS[case.scheduler]).from_config(config)
    begun = getattr(diffusers, f"StableDiffusionXL{kind}Pipeline")(**parts)
    begun.set_progress_bar_config(disable=True)
    settings = {**asked, "image": Image.open(image), "num_inference_steps": case.steps}
    settings |= {"guidance_scale": case.guidance, "output_type": "latent"}
    if case.masked:
        settings |= {"mask_image": Image.open(mask), "height": SIZE[0], "width": SIZE[1]}
    timesteps: list[float] = []
    forward = begun.unet.forward

    def noted(latent: Any, timestep: Any, *given: Any, **named: Any) -> Any:
        timesteps.append(float(timestep))
        return forward(latent, timestep, *given, **named)

    place = f"diffusers.pipelines.stable_diffusion_xl.pipeline_stable_diffusion_xl_{kind.lower()}"
    posterior = [nchw(posterior_noise(SEED, SHAPE, stream)) for stream in (1, 2)]
    with ExitStack() as stack:
        for module, drawn in (
            ("diffusers.models.autoencoders.vae", posterior),
            (place, [nchw(noise(SEED, SHAPE))] * 3),
        ):
            stack.enter_context(mock.patch(f"{module}.randn_tensor", side_effect=drawn, create=True))
        added = noise_taken(table, SEED, SHAPE)
        stack.enter_context(noise_given(type(begun.scheduler).__module__, added))
        stack.enter_context(mock.patch.object(begun.unet, "forward", noted))
        latents = begun("a red dog!", **settings).images
    return nhwc(latents), timesteps
