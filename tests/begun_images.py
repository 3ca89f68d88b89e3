"""An image that begins from an image, by a converted bundle and by diffusers' own pipelines.

Both sides get the same pixels, the same noise of the posterior and to begin with, and the same noise in every
step of a scheduler that adds some.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from PIL import Image

import graph_rewrites
from msd.bundle import Bundle, open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.graph.parity import psnr
from msd.models.demo.captions import scenes
from msd.models.demo.scenes import draw
from msd.run.runtime.initial_image import InitialImage, open_initial_image
from msd.run.runtime.noise import noise, posterior_noise
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.scheduler import make_scheduler
from tests.drawings import KINDS, nchw, nhwc, noise_given, noise_taken, opened
from tests.schedulers import diffusers_class

STEPS, SEED = 6, 5
ENCODER = ("vae_encoder",)
CHANGES = {"skip_prk_steps": True}
"""Of PNDM, as in public checkpoints: in image to image, diffusers misplaces its Runge-Kutta steps."""

SIZES = {"sd21": (64, 128), "inpainting": (64, 64), "demo": (128, 128)}


@dataclass(frozen=True, eq=False)
class Case:
    """A bundle and the checkpoint it comes from; `size` is the height and width of its images."""

    checkpoint: Path
    bundle: Bundle
    size: tuple[int, int]
    prompt: str = "a red dog!"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (1, self.size[0] // 8, self.size[1] // 8, 4)

    @cached_property
    def pipeline(self) -> Pipeline:
        """Our pipeline, its networks loaded once."""
        return Pipeline(self.bundle, execution="resident")


@cache
def converted(checkpoint: Path, recipe: str) -> Case:
    """Return the case of a checkpoint, converted beside its folder, whose name decides the size."""
    height, width = SIZES[checkpoint.name]
    settings = Settings(graph_rewrites.load(), find_recipe(recipe), also=ENCODER, height=height, width=width)
    convert(checkpoint, checkpoint.parent / recipe, settings)
    return Case(checkpoint, open_bundle(checkpoint.parent / recipe), (height, width))


def distances(case: Case, folder: Path, masked: bool, strength: float, scheduler: str) -> tuple[float, float]:
    """Return the PSNR of our last latents and of our image to diffusers', in dB; writes files to `folder`."""
    image, mask = source(folder, case.size)
    files = image, mask if masked else None
    latents, picture = ours(case, open_initial_image(image, *case.size, mask=files[1]), strength, scheduler)
    wanted, shown = theirs(case, files, strength, scheduler)
    return psnr(wanted, latents), psnr(shown, picture)


def source(folder: Path, size: tuple[int, int]) -> tuple[Path, Path]:
    """Write a scene of the demo at `size`, and a mask that repaints a disc left of the middle."""
    scene = Image.fromarray(draw(scenes("held-back")[3], 3)).resize(size[::-1])
    scene.save(folder / "image.png")
    rows, columns = np.mgrid[: size[0], : size[1]]
    disc = (rows - size[0] / 2) ** 2 + (columns - size[1] / 3) ** 2 < (size[0] / 3) ** 2
    Image.fromarray(disc.astype(np.uint8) * 255).save(folder / "mask.png")
    return folder / "image.png", folder / "mask.png"


def ours(case: Case, image: InitialImage, strength: float, scheduler: str) -> tuple[np.ndarray, np.ndarray]:
    """Return our last latents, NHWC, and our image in [0, 1]."""
    case.pipeline.scheduler = make_scheduler({**case.bundle.manifest.scheduler, **CHANGES}, scheduler)
    settings: dict[str, Any] = {"paste": False} if image.mask is not None else {}
    made = case.pipeline.generate(
        case.prompt, image=image, strength=strength, seed=SEED, steps=STEPS, **settings
    )
    return made.latents, made.pixels / 255


def theirs(
    case: Case, files: tuple[Path, Path | None], strength: float, scheduler: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the same of diffusers' pipeline."""
    import diffusers

    pipeline, config = opened(case.checkpoint)
    pipeline.scheduler = diffusers_class(KINDS[scheduler]).from_config({**config, **CHANGES})
    kind = "Inpaint" if files[1] else "Img2Img"
    settings: dict[str, Any] = {"image": Image.open(files[0]), "strength": strength}
    if files[1]:
        settings |= {"mask_image": Image.open(files[1]), "height": case.size[0], "width": case.size[1]}
    parts = {k: v for k, v in pipeline.components.items() if k != "image_encoder"}
    begun = getattr(diffusers, f"StableDiffusion{kind}Pipeline")(**parts, requires_safety_checker=False)
    begun.set_progress_bar_config(disable=True)
    settings |= {"eta": 0.3} if scheduler == "tcd" else {}
    table = make_scheduler(pipeline.scheduler.config, scheduler).table(STEPS, strength)
    added = noise_taken(table, SEED, case.shape, on_paths=scheduler == "dpm++-sde")
    with (
        same_noise(case, kind.lower(), skips_image(case, kind, strength)),
        noise_given(type(pipeline.scheduler).__module__, added),
    ):
        latents = begun(
            case.prompt, num_inference_steps=STEPS, guidance_scale=7.5, output_type="latent", **settings
        ).images
    image = pipeline.vae.decode(latents / pipeline.vae.config.scaling_factor).sample
    return nhwc(latents), (nhwc(image.detach())[0] / 2 + 0.5).clip(0, 1)


def skips_image(case: Case, kind: str, strength: float) -> bool:
    """Return whether diffusers encodes only the masked image."""
    return kind == "Inpaint" and strength == 1 and case.checkpoint.name == "inpainting"


def same_noise(case: Case, kind: str, only_masked: bool) -> ExitStack:
    """Have diffusers' pipeline and autoencoder take our noise."""
    posterior = [nchw(posterior_noise(SEED, case.shape, stream)) for stream in (1, 2)]
    stack = ExitStack()
    for place, values in {
        "diffusers.models.autoencoders.vae": posterior[only_masked:],
        f"diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion_{kind}": [
            nchw(noise(SEED, case.shape))
        ],
    }.items():
        stack.enter_context(mock.patch(f"{place}.randn_tensor", side_effect=values, create=True))
    return stack
