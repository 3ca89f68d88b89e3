"""Images that ControlNets steer, against diffusers' pipelines with ControlNets."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from PIL import Image

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.graph.parity import psnr
from msd.run.runtime.control import Control
from msd.run.runtime.initial_image import open_initial_image
from msd.run.runtime.noise import noise, posterior_noise
from msd.run.runtime.pipeline import Pipeline
from tests import checkpoints, controlnets
from tests.drawings import KINDS, nchw, nhwc
from tests.late import diffusers
from tests.schedulers import diffusers_class

HEIGHT, WIDTH = 24, 40
SHAPE = (1, HEIGHT // 2, WIDTH // 2, 4)
STEPS, SEED = 5, 3
PROMPT, NEGATIVE = "a red dog!", "blurry"
EDGES, DEPTH = "edges", "depth"


@dataclass(frozen=True)
class Made:
    """A checkpoint with two ControlNets, as a bundle and as folders."""

    checkpoint: Path
    controls: dict[str, Path]
    bundle: Bundle
    image: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("controlled")
    unet = checkpoints.write(folder / "tiny", checkpoints.TINY)["unet"]
    controls = {name: folder / name for name in (EDGES, DEPTH)}
    for seed, path in enumerate(controls.values()):
        controlnets.write(path, unet, seed, **controlnets.OF_TINY)
    settings = Settings(
        graph_rewrites.load(),
        find_recipe("float32"),
        also=("vae_encoder",),
        height=HEIGHT,
        width=WIDTH,
        controlnets=((controls[EDGES], None), (controls[DEPTH], DEPTH)),
    )
    convert(folder / "tiny", folder / "out", settings)
    levels = np.random.default_rng(6).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    Image.fromarray(levels).save(folder / "image.png")
    for i, name in enumerate(controls):
        hint = np.random.default_rng(i).integers(0, 2, (HEIGHT, WIDTH, 3), np.uint8) * 255
        Image.fromarray(hint).save(folder / f"{name}.png")
    return Made(folder / "tiny", controls, open_bundle(folder / "out", verify=True), folder / "image.png")


@dataclass(frozen=True)
class Case:
    """What steers, from when and until when, and the other settings of an image."""

    scales: dict[str, float]
    begin: dict[str, float] = field(default_factory=dict)
    until: dict[str, float] = field(default_factory=dict)
    guess: bool = False
    guidance: float = 7.5
    strength: float | None = None
    scheduler: str = "ddim"

    def picture(self, made: Made, name: str) -> Path:
        return made.image.with_name(f"{name}.png")

    def ours(self, made: Made) -> np.ndarray:
        """Our last latents."""
        controls = [
            Control(
                name,
                open_initial_image(self.picture(made, name), HEIGHT, WIDTH).pixels,
                scale,
                self.begin.get(name, 0.0),
                self.until.get(name, 1.0),
            )
            for name, scale in self.scales.items()
        ]
        settings: dict[str, Any] = {"guidance": self.guidance, "guess": self.guess, "controls": controls}
        if self.strength:
            image = open_initial_image(made.image, HEIGHT, WIDTH)
            settings |= {"image": image, "strength": self.strength}
        with Pipeline(made.bundle, scheduler=self.scheduler) as pipeline:
            return pipeline.generate(
                PROMPT, negative_prompt=NEGATIVE, seed=SEED, steps=STEPS, **settings
            ).latents

    def theirs(self, made: Made) -> np.ndarray:
        """Diffusers' last latents."""
        opened = [diffusers.ControlNetModel.from_pretrained(made.controls[name]) for name in self.scales]
        images = [Image.open(self.picture(made, name)) for name in self.scales]
        kind = "Img2Img" if self.strength else ""
        pipeline = getattr(diffusers, f"StableDiffusionControlNet{kind}Pipeline").from_pretrained(
            made.checkpoint, controlnet=single(opened), safety_checker=None
        )
        pipeline.set_progress_bar_config(disable=True)
        pipeline.scheduler = diffusers_class(KINDS[self.scheduler]).from_config(pipeline.scheduler.config)
        settings: dict[str, Any] = {
            "controlnet_conditioning_scale": single([*self.scales.values()]),
            "control_guidance_start": [self.begin.get(name, 0.0) for name in self.scales],
            "control_guidance_end": [self.until.get(name, 1.0) for name in self.scales],
            "guess_mode": self.guess,
        }
        with ExitStack() as stack:
            if self.strength:
                settings |= {"image": Image.open(made.image), "control_image": single(images)}
                settings |= {"strength": self.strength}
                for place, value in (
                    ("diffusers.models.autoencoders.vae", posterior_noise(SEED, SHAPE, 1)),
                    ("diffusers.pipelines.controlnet.pipeline_controlnet_img2img", noise(SEED, SHAPE)),
                ):
                    stack.enter_context(mock.patch(f"{place}.randn_tensor", return_value=nchw(value)))
            else:
                settings |= {"image": single(images), "latents": nchw(noise(SEED, SHAPE))}
            with torch.no_grad():
                return nhwc(
                    pipeline(
                        PROMPT,
                        negative_prompt=NEGATIVE,
                        num_inference_steps=STEPS,
                        guidance_scale=self.guidance,
                        output_type="latent",
                        **settings,
                    ).images
                )


def single(values: list[Any]) -> Any:
    """Return the only one of values, or all of several, as diffusers takes them."""
    return values[0] if len(values) == 1 else values


BOTH = {EDGES: 0.8, DEPTH: 0.4}
CASES = {
    "one": Case({EDGES: 1.0}),
    "the second, half": Case({DEPTH: 0.5}),
    "two": Case(BOTH),
    "two, in the other order": Case({DEPTH: 1.5, EDGES: -0.5}),
    "a part of the steps": Case({EDGES: 1.0}, begin={EDGES: 0.2}, until={EDGES: 0.7}),
    "different parts": Case(BOTH, begin={EDGES: 0.4}, until={DEPTH: 0.4}),
    "guess": Case({EDGES: 0.9}, guess=True),
    "guess with two": Case(BOTH, guess=True),
    "guess without guidance": Case({EDGES: 1.0}, guess=True, guidance=1.0),
    "without guidance": Case({EDGES: 1.0}, guidance=1.0),
    "image to image": Case({EDGES: 1.0}, strength=0.6),
    "image to image with two": Case(BOTH, strength=0.8, until={EDGES: 0.5}),
    "image to image, guess": Case({DEPTH: 1.0}, strength=0.8, guess=True),
    "a step of two runs": Case({EDGES: 1.0}, scheduler="heun", begin={EDGES: 0.3}),
    "scaled latents": Case({EDGES: 1.0}, scheduler="euler"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_images_are_diffusers(case: Case, made: Made) -> None:
    found, wanted = case.ours(made), case.theirs(made)
    assert psnr(wanted, found) >= 60
    without = Case({}, guidance=case.guidance, strength=case.strength, scheduler=case.scheduler).ours(made)
    assert psnr(without, found) < 50


def test_a_hint_below_black_says_where_to_repaint_as_in_diffusers(made: Made) -> None:
    """The ControlNet of diffusers' make_inpaint_condition has -1 there, on a scale from 0 to 1."""
    edges = open_initial_image(made.image.with_name(f"{EDGES}.png"), HEIGHT, WIDTH).pixels
    hint = edges.copy()
    hint[:, :, : WIDTH // 2] = -3
    settings: dict[str, Any] = {"negative_prompt": NEGATIVE, "output_type": "latent"}
    settings |= {"controlnet_conditioning_scale": 3.0, "num_inference_steps": STEPS}
    pipeline = diffusers.StableDiffusionControlNetPipeline.from_pretrained(
        made.checkpoint,
        controlnet=diffusers.ControlNetModel.from_pretrained(made.controls[EDGES]),
        safety_checker=None,
    )
    pipeline.set_progress_bar_config(disable=True)
    start = nchw(noise(SEED, SHAPE))
    wanted = pipeline(PROMPT, image=nchw(hint / 2 + 0.5), latents=start, **settings).images
    with Pipeline(made.bundle, scheduler="ddim") as ours:
        found, black = (
            ours.generate(
                PROMPT, negative_prompt=NEGATIVE, seed=SEED, steps=STEPS, controls=[Control(EDGES, each, 3.0)]
            ).latents
            for each in (hint, np.maximum(hint, -1))
        )
    assert psnr(nhwc(wanted), found) >= 80
    assert psnr(black, found) < 65
