"""Pictures drawn by the real interpreter against the same loop in NumPy with diffusers' scheduler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from msd.bundle import Bundle, open_bundle
from msd.errors import BadBundle, BadConfig
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.noise import noise
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from msd.run.runtime.tokenizer import open_tokenizer
from tests import stand_in

PROMPT, NEGATIVE = "three red circles", "a blue square!"


def expected_latents(
    folder: Path, request: Request, latent: np.ndarray, period: float, kind: str = "DDIMScheduler"
) -> np.ndarray:
    """The denoising loop as diffusers' pipeline has it, on the NumPy networks."""
    import diffusers
    import torch

    tokenizer = open_tokenizer(folder / "tokenizer")
    words = (request.negative_prompt, request.prompt)
    away, towards = (stand_in.text_encoder(tokenizer.encode(text)[None]) for text in words)
    scheduler = getattr(diffusers, kind).from_config(stand_in.SCHEDULER, steps_offset=1)
    scheduler.set_timesteps(request.steps)
    state = torch.from_numpy(latent) * scheduler.init_noise_sigma
    for i, timestep in enumerate(scheduler.timesteps, 1):
        at = np.array([timestep], np.float32)
        scaled = scheduler.scale_model_input(state, timestep).numpy()
        output = stand_in.unet(scaled, at, towards, period)
        if request.guidance > 1:
            without = stand_in.unet(scaled, at, away, period)
            output = without + request.guidance * (output - without)
        added = torch.from_numpy(noise(request.seed, latent.shape, i))
        with mock.patch("diffusers.schedulers.scheduling_lcm.randn_tensor", return_value=added):
            state = scheduler.step(torch.from_numpy(output), timestep, state).prev_sample
    return state.numpy()


def expected_pixels(latent: np.ndarray) -> np.ndarray:
    return np.round((stand_in.vae_decoder(latent)[0] + 1) * 127.5)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ddim", "DDIMScheduler"),
        ("dpm++", "DPMSolverMultistepScheduler"),
        ("euler", "EulerDiscreteScheduler"),
        ("lcm", "LCMScheduler"),
    ],
)
def test_every_scheduler_s_latents_are_the_loop_s(name: str, kind: str, bundle_folder: Path) -> None:
    start = np.random.default_rng(8).normal(size=(1, 4, 6, 4)).astype(np.float32)
    request = Request("a red house", "grey", seed=3, steps=6, guidance=2.0)
    (picture,) = Pipeline(open_bundle(bundle_folder), scheduler=name).generate_all([request], latents=[start])
    wanted = expected_latents(bundle_folder, request, start, stand_in.PERIOD, kind)
    np.testing.assert_allclose(picture.latents, wanted, atol=2e-5 * np.abs(wanted).max())
    assert picture.metadata["scheduler"] == f"{name}, epsilon"


@pytest.mark.parametrize("guidance", [7.5, 1.0])
@pytest.mark.parametrize(
    ("folder", "period"),
    [
        ("bundle_folder", stand_in.PERIOD),
        ("batch_two_folder", stand_in.PERIOD),
        ("sinusoids_folder", stand_in.SINUSOID_PERIOD),
    ],
)
def test_a_picture_is_the_loop_s(
    folder: str, period: float, guidance: float, request: pytest.FixtureRequest
) -> None:
    bundle = open_bundle(request.getfixturevalue(folder))
    start = np.random.default_rng(8).normal(size=(1, 4, 6, 4)).astype(np.float32)
    picture = Pipeline(bundle).generate(PROMPT, negative_prompt=NEGATIVE, guidance=guidance, latents=start)
    latents = expected_latents(bundle.folder, Request(PROMPT, NEGATIVE, 0, 20, guidance), start, period)
    assert np.abs(picture.latents - latents).max() <= 1e-4 * np.abs(latents).max()
    assert (picture.pixels.shape, picture.pixels.dtype) == ((32, 48, 3), np.uint8)
    assert np.abs(picture.pixels - expected_pixels(latents)).max() <= 1


def test_the_gpu_draws_the_same_picture(batch_two_folder: Path) -> None:
    bundle = open_bundle(batch_two_folder)
    cpu, gpu = (Pipeline(bundle, backend).generate(PROMPT, steps=3) for backend in ("cpu", "gpu"))
    assert np.abs(gpu.latents - cpu.latents).max() <= 1e-4 * np.abs(cpu.latents).max()
    assert not np.array_equal(gpu.latents, cpu.latents)
    assert gpu.metadata["backend"] == "gpu"


def test_the_seed_is_the_noise_and_the_words_matter(bundle_folder: Path) -> None:
    pipeline = Pipeline(open_bundle(bundle_folder), threads=1)
    one = pipeline.generate(PROMPT, seed=3, steps=4)
    start = noise(3, (1, 4, 6, 4))
    assert np.array_equal(one.latents, pipeline.generate(PROMPT, latents=start, steps=4).latents)
    assert not np.array_equal(one.latents, pipeline.generate(PROMPT, seed=4, steps=4).latents)
    assert not np.array_equal(one.latents, pipeline.generate("dogs", seed=3, steps=4).latents)
    assert not np.array_equal(
        one.latents, pipeline.generate(PROMPT, negative_prompt=NEGATIVE, seed=3, steps=4).latents
    )


def test_without_guidance_the_negative_prompt_is_not_used(bundle_folder: Path) -> None:
    pipeline = Pipeline(open_bundle(bundle_folder))
    pictures = [
        pipeline.generate(PROMPT, negative_prompt=text, guidance=1, steps=3) for text in ("", NEGATIVE)
    ]
    assert np.array_equal(pictures[0].latents, pictures[1].latents)


def test_noise_is_the_same_on_every_platform() -> None:
    first = noise(42, (1, 4, 6, 4))
    assert first.dtype == np.float32
    assert np.allclose(
        first.ravel()[:4], [0.14190717, -1.66850793, -1.33210802, 0.58255345], rtol=0, atol=1e-7
    )


def test_several_pictures_are_each_their_own(bundle_folder: Path) -> None:
    pipeline = Pipeline(open_bundle(bundle_folder))
    requests = [Request(PROMPT, seed=1, steps=3), Request("dogs", NEGATIVE, 2, 5, 3.0)]
    told: list[tuple[int, int]] = []
    pictures = pipeline.generate_all(requests, lambda done, total, seconds: told.append((done, total)))
    assert told == [(i, 8) for i in range(1, 9)]
    for request, picture in zip(requests, pictures, strict=True):
        alone = pipeline.generate(
            request.prompt, negative_prompt=request.negative_prompt, seed=request.seed,
            steps=request.steps, guidance=request.guidance,
        )  # fmt: skip
        assert np.array_equal(picture.pixels, alone.pixels)
        assert picture.metadata == alone.metadata


def test_metadata_says_how_it_was_made(bundle_folder: Path) -> None:
    bundle = open_bundle(bundle_folder)
    metadata = Pipeline(bundle).generate(PROMPT, seed=9, steps=2, guidance=3.5).metadata
    assert metadata["prompt"] == PROMPT
    assert (metadata["seed"], metadata["steps"], metadata["guidance"]) == (9, 2, 3.5)
    assert metadata["model"] == bundle.model_hash
    assert metadata["scheduler"] == "ddim, epsilon"


def test_one_network_is_in_memory_at_a_time(bundle_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    class Watched(Interpreter):
        def __init__(self, path: Path, **settings: Any) -> None:
            assert all(state == "closed" for state in current.values()), current
            super().__init__(path, **settings)
            self.name = path.stem
            opened.append(self.name)
            current[self.name] = "open"

        def __exit__(self, *error: object) -> None:
            super().__exit__(*error)  # type: ignore[arg-type]
            current[self.name] = "closed"

    current: dict[str, str] = {}
    monkeypatch.setattr("msd.run.runners.backends.litert_cpu.Interpreter", Watched)
    Pipeline(open_bundle(bundle_folder), execution="sequential").generate(PROMPT, steps=3)
    assert opened == ["text_encoder", "unet", "vae_decoder"]
    assert set(current.values()) == {"closed"}


@pytest.mark.parametrize("steps", [0, 1001])
def test_refuses_impossible_steps_before_any_work(steps: int, bundle_folder: Path) -> None:
    with pytest.raises(BadConfig, match="can take 1 to 1000"):
        Pipeline(open_bundle(bundle_folder)).generate(PROMPT, steps=steps)


def test_refuses_latents_of_another_shape(bundle_folder: Path) -> None:
    with pytest.raises(
        BadConfig, match=r"latents of shape \(1, 6, 4, 4\) do not fit .* takes \(1, 4, 6, 4\)"
    ):
        Pipeline(open_bundle(bundle_folder)).generate(PROMPT, latents=np.zeros((1, 6, 4, 4), np.float32))


def test_refuses_a_bundle_without_its_decoder(bundle_folder: Path) -> None:
    whole = open_bundle(bundle_folder)
    parts = {name: part for name, part in whole.manifest.components.items() if name != "vae_decoder"}
    bundle = Bundle(whole.folder, replace(whole.manifest, components=parts))
    with pytest.raises(BadBundle, match="has no vae_decoder; it should have text_encoder, unet, vae_decoder"):
        Pipeline(bundle).generate(PROMPT, steps=1)
