"""Few-step LoRA files, merged and generated with their schedules, against diffusers with them fused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import graph_rewrites
from msd.bundle import Bundle, ImageDefaults, open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.graph.parity import psnr
from msd.models.demo import CHECKPOINT
from msd.run.runtime.noise import noise
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from tests import checkpoints, loras
from tests.drawings import Drawing, nchw, nhwc
from tests.loras import Tiny

TARGETS = (
    *("to_q", "to_k", "to_v", "to_out.0", "proj_in", "proj_out", "ff.net.0.proj", "ff.net.2", "conv1"),
    *("conv2", "conv_shortcut", "downsamplers.0.conv", "upsamplers.0.conv", "time_emb_proj"),
)
"""The layers that diffusers' scripts for LCM-LoRA change; the files of Hyper-SD and TCD follow them."""
MORE = ("conv_in", "conv_out", "time_embedding.linear_1", "time_embedding.linear_2")
TRAILING = {"timestep_spacing": "trailing"}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("tiny"), checkpoints.TINY)
    unet = tiny.modules["unet"]
    names = [name for name, _ in unet.named_modules() if name.endswith(TARGETS) or name in MORE]
    assert len(names) > 40
    drawn = loras.draw(tiny.modules, [("unet", name) for name in names])
    tiny.factors = {layer: (0.1 * down, 0.1 * up, alpha) for layer, (down, up, alpha) in drawn.items()}
    return tiny


@pytest.fixture(scope="module")
def lora(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loras.save(tmp_path_factory.mktemp("lora") / "few.safetensors", loras.kohya(tiny.factors))


@pytest.fixture(scope="module")
def converted(
    tiny: Tiny, lora: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., tuple[Bundle, int]]:
    """Return a function that converts with the LoRA and a schedule; the networks are written once."""
    folder = tmp_path_factory.mktemp("few")
    settings: dict[str, Any] = {"recipe": find_recipe("float32"), "lora": [(lora, 1.0)]}
    convert(tiny.folder, folder / "first", Settings(graph_rewrites.load(), **settings))

    def again(name: str, **schedule: Any) -> tuple[Bundle, int]:
        out, stages = folder / name, []
        shutil.copytree(folder / "first", out)
        own = Settings(graph_rewrites.load(), **settings, **schedule)
        convert(tiny.folder, out, own, lambda *stage: stages.append(stage))
        return open_bundle(out), len(stages)

    return again


@pytest.fixture(scope="module")
def fused(tiny: Tiny, lora: Path) -> Any:
    """Return diffusers' pipeline with the LoRA fused."""
    modules = loras.fuse(tiny.modules, tiny.folder / "tokenizer", [(lora, 1.0)])
    pipeline = loras.pipeline(modules, tiny.folder / "tokenizer")
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def theirs(pipeline: Any, kind: str, changes: dict[str, Any], steps: int, **call: Any) -> Any:
    """Return diffusers' latents, NHWC, and image in [0, 1] from the noise of seed 5."""
    import diffusers

    scheduler = getattr(diffusers, kind)
    pipeline.scheduler = scheduler.from_config(checkpoints.TINY["scheduler"], **changes)
    start = noise(5, (1, 16, 16, 4))
    added = [nchw(noise(5, start.shape, i)) for i in range(1, steps + 1)]
    with mock.patch(f"{scheduler.__module__}.randn_tensor", side_effect=added, create=True):
        given = {"num_inference_steps": steps, "guidance_scale": 0.0, "output_type": "latent", **call}
        latents = pipeline("a red dog!", latents=nchw(start), **given).images
    image = pipeline.vae.decode(latents / pipeline.vae.config.scaling_factor).sample
    return nhwc(latents), (nhwc(image.detach())[0] / 2 + 0.5).clip(0, 1)


@pytest.mark.parametrize(
    ("choice", "kind", "changes", "steps", "call"),
    [
        pytest.param("lcm", "LCMScheduler", {}, (4, 2), {}, id="LCM-LoRA"),
        pytest.param(
            "ddim:timestep_spacing=trailing", "DDIMScheduler", TRAILING, (1, 2, 4), {}, id="Hyper-SD"
        ),
        pytest.param("tcd:eta=1", "TCDScheduler", {}, (1, 3), {"eta": 1.0}, id="Hyper-SD, unified"),
        pytest.param("tcd", "TCDScheduler", {}, (4,), {"eta": 0.3}, id="TCD"),
        pytest.param(
            "euler:timestep_spacing=trailing", "EulerDiscreteScheduler", TRAILING, (1, 4), {}, id="Lightning"
        ),
        pytest.param("euler-a", "EulerAncestralDiscreteScheduler", {}, (5,), {}, id="Euler ancestral"),
    ],
)
def test_images_are_diffusers(
    choice: str,
    kind: str,
    changes: dict[str, Any],
    steps: tuple[int, ...],
    call: dict[str, Any],
    converted: Callable[..., tuple[Bundle, int]],
    fused: Any,
) -> None:
    bundle, stages = converted(choice, scheduler=choice, steps=steps[0], guidance=0.0)
    assert (stages, bundle.manifest.images) == (0, ImageDefaults(steps[0], 0.0))
    requests = [Request("a red dog!", seed=5, steps=count, guidance=0.0) for count in steps]
    for count, image in zip(steps, Pipeline(bundle).generate_all(requests), strict=True):
        wanted, shown = theirs(fused, kind, changes, count, **call)
        assert psnr(wanted, image.latents) >= 60
        assert psnr(shown, image.pixels / 255) >= 50


@pytest.mark.parametrize(
    ("scheduler", "steps", "changes"),
    [("euler", 4, TRAILING), ("ddim", 2, TRAILING), ("lcm", 4, {}), ("tcd", 3, {"eta": 1.0})],
    ids=["Turbo", "Hyper-SD", "LCM", "Hyper-SD, unified"],
)
def test_int8_weights_keep_the_demo_s_images(
    scheduler: str, steps: int, changes: dict[str, Any], demo_int8: Path
) -> None:
    prompt = "two red circles over a plain green background"
    drawing = Drawing(scheduler, steps, guidance=0.0, prompt=prompt, changes=tuple(changes.items()))
    start = noise(3, (1, 16, 16, 4))
    _, picture, mode = drawing.ours(open_bundle(demo_int8), start)
    _, shown = drawing.theirs(CHECKPOINT, start)
    assert mode == "none"
    assert psnr(shown, picture) >= 30
