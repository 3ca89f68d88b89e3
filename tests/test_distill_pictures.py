"""Distillation from pictures with captions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from msd.errors import BadCalibration, BadCheckpoint, BadConfig, BadImage
from msd.run.runtime.diffusion import Diffusion
from msd.train.distill.distill import Observer, distill
from msd.train.distill.levels import Levels, timesteps
from msd.train.distill.networks import Networks, open_networks
from msd.train.distill.pictures import Pictures, encode_pictures, read_captioned
from msd.train.distill.settings import DistillationSettings, Goal, ScaleRange, TeacherData, Training
from msd.train.distill.source import plan_source
from tests.checkpoints import TINY, vary, write

SMALL = vary(TINY, unet={"sample_size": [4, 6]})
DIFFUSION = Diffusion.from_config({"beta_schedule": "scaled_linear"})
LEVELS = Levels.of(DIFFUSION, "cpu")
SILENT = Observer(lambda announced: None, lambda done, total: None, lambda progress: None)


@pytest.fixture
def networks(tmp_path: Path) -> Networks:
    write(tmp_path / "teacher", SMALL)
    return open_networks(tmp_path / "teacher", "cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three pictures of different sizes; the last has the size of the model's images."""
    images = tmp_path / "images"
    (images / "more").mkdir(parents=True)
    lines = []
    for i, (name, size) in enumerate({"a.png": (60, 40), "b.png": (33, 90), "more/c.png": (12, 8)}.items()):
        pixels = np.random.default_rng(i).integers(0, 256, (*size[::-1], 3), np.uint8)
        Image.fromarray(pixels).save(images / name)
        lines.append(json.dumps({"file_name": name, "text": "red " * i, "other": 1}))
    (images / "metadata.jsonl").write_text("\n".join(lines) + "\n\n")
    return images


def pictures(**changes: Any) -> Pictures:
    latents = np.ones((3, 4, 6, 10), np.float32) * np.array([1, 2, 3], np.float32)[:, None, None, None]
    usual = {
        "latents": latents,
        "ids": torch.arange(12).reshape(4, 3),
        "guidance": ScaleRange(2, 14),
        "timesteps": timesteps(DIFFUSION, 32),
        "levels": LEVELS,
        "device": "cpu",
    }
    return Pictures(**{**usual, **changes})


def test_points_are_clean_latents_with_fresh_noise_of_their_timestep() -> None:
    points = pictures().anywhere(torch.Generator().manual_seed(1), 300)
    which = points.ids[:, 0] // 3
    signal, sigma = LEVELS.signal(points.timesteps).flatten(), LEVELS.sigma(points.timesteps).flatten()
    noise = (points.latents - (signal * (which + 1)).view(-1, 1, 1, 1)) / sigma.view(-1, 1, 1, 1)
    assert abs(float(noise.mean())) < 0.02
    assert float(noise.std()) == pytest.approx(1, abs=0.02)
    assert {*which.tolist()} == {0, 1, 2}
    assert 2 <= float(points.scales.min()) < 3 < 13 < float(points.scales.max()) <= 14
    assert int(points.timesteps.min()) < 30
    assert int(points.timesteps.max()) > 970


@pytest.mark.parametrize("steps", [32, 4, 1])
def test_points_on_the_grid(steps: int) -> None:
    points, step = pictures().on_grid(torch.Generator().manual_seed(1), 50, steps)
    assert torch.equal(points.timesteps, torch.tensor(timesteps(DIFFUSION, steps))[step])
    assert len({*step.tolist()}) > min(steps, 10) - 1


def test_without_guidance_some_captions_are_left_out() -> None:
    points = pictures(guidance=None).anywhere(torch.Generator().manual_seed(1), 500)
    assert torch.equal(points.scales, torch.ones(500))
    assert 0.05 < float((points.ids[:, 0] == 9).float().mean()) < 0.15
    guided = pictures().anywhere(torch.Generator().manual_seed(1), 500, among=range(19, 1000, 20))
    assert float((guided.ids[:, 0] == 9).float().mean()) == 0
    assert {int(each) % 20 for each in guided.timesteps} == {19}


def test_latents_are_those_of_diffusers_encoder(tmp_path: Path, networks: Networks, folder: Path) -> None:
    path = tmp_path / "latents.npy"
    encode_pictures(networks, read_captioned(folder), path, lambda done, total: None)
    latents = np.load(path)
    assert latents.shape == (3, *networks.latent_shape)
    assert latents.dtype == np.float32
    pixels = np.asarray(Image.open(folder / "more/c.png"), np.float32) / 127.5 - 1
    with torch.no_grad():
        image = torch.from_numpy(pixels).permute(2, 0, 1)[None]
        mean = networks.vae.encode(image).latent_dist.mean * networks.vae.config.scaling_factor
    assert np.allclose(latents[2], mean[0].numpy(), atol=1e-5)


def test_the_plan_counts_pictures_in_words(tmp_path: Path, networks: Networks, folder: Path) -> None:
    settings = DistillationSettings(
        data=TeacherData(None, images=folder), goal=Goal(ScaleRange(3, 3), 10), state=tmp_path / "state"
    )
    assert plan_source(networks, settings).summary.startswith(f"3 images of {folder}, the latents in ")
    first = (folder / "metadata.jsonl").read_text().splitlines()[0]
    (folder / "metadata.jsonl").write_text(first)
    assert plan_source(networks, settings).summary.startswith(f"1 image of {folder}, the latents in ")


def test_a_student_learns_from_pictures(tmp_path: Path, networks: Networks, folder: Path) -> None:
    settings = DistillationSettings(
        data=TeacherData(None, images=folder),
        goal=Goal(ScaleRange(3, 3), 10),
        state=tmp_path / "state",
        training=Training(updates=2, batch=2, warmup=1),
    )
    result = distill(networks.folder, tmp_path / "student", settings, SILENT)
    assert result.facts["learnt_from"] == "images"
    assert [path.name[:9] for path in (tmp_path / "state").glob("*.npy")] == ["pictures-"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 of .* is not JSON"),
        ("[]", "line 2 of .* should be"),
        ('{"file_name": "a.png"}', "line 2 of .* should be"),
        ('{"file_name": 3, "text": "red"}', "line 2 of .* should be"),
        ('{"file_name": "no.png", "text": "red"}', "names 'no.png', which is no file"),
        ('{"file_name": "../teacher/model_index.json", "text": "red"}', "which is no file in"),
    ],
)
def test_captions_that_cannot_be_used_are_refused(
    networks: Networks, folder: Path, line: str, message: str
) -> None:
    (folder / "metadata.jsonl").write_text(f'{{"file_name": "a.png", "text": "red"}}\n{line}\n')
    with pytest.raises(BadCalibration, match=message):
        read_captioned(folder)


def test_a_folder_without_captions_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(BadCalibration, match=r"metadata\.jsonl cannot be read"):
        read_captioned(tmp_path)
    (folder / "metadata.jsonl").write_text("\n")
    with pytest.raises(BadCalibration, match="names no image"):
        read_captioned(folder)


def test_a_file_that_is_no_image_is_refused(tmp_path: Path, networks: Networks, folder: Path) -> None:
    (folder / "a.png").write_text("not a PNG")
    with pytest.raises(BadImage, match=r"a\.png"):
        encode_pictures(networks, read_captioned(folder), tmp_path / "latents.npy", lambda done, total: None)
    assert not (tmp_path / "latents.npy").exists()


def test_a_checkpoint_without_an_encoder_is_refused(tmp_path: Path, networks: Networks, folder: Path) -> None:
    file = networks.folder / "vae" / "diffusion_pytorch_model.safetensors"
    unneeded = "encoder.", "quant_conv."
    save_file({n: t for n, t in load_file(file).items() if not n.startswith(unneeded)}, file)
    without = open_networks(networks.folder, "cpu")
    with pytest.raises(BadCheckpoint, match="has no VAE encoder, which pictures need"):
        encode_pictures(without, read_captioned(folder), tmp_path / "latents.npy", lambda done, total: None)


def test_prompts_and_images_together_are_refused(tmp_path: Path, networks: Networks, folder: Path) -> None:
    for data in (TeacherData(None), TeacherData(tmp_path / "prompts.txt", images=folder)):
        settings = DistillationSettings(data, Goal(None, 10), tmp_path / "state")
        with pytest.raises(BadConfig, match="give one of them"):
            distill(networks.folder, tmp_path / "student", settings, SILENT)
