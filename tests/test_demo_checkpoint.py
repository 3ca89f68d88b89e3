import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors import safe_open

from msd.models.demo import CHECKPOINT, score
from msd.models.demo.captions import captions
from tests.late import diffusers

WEIGHTS = {
    "unet": "diffusion_pytorch_model.safetensors",
    "vae": "diffusion_pytorch_model.safetensors",
    "text_encoder": "model.safetensors",
}
MEASURE = Path(__file__).parent.parent / "scripts" / "lab" / "measure_demo.py"


def config(part, name="config.json"):
    return json.loads((CHECKPOINT / part / name).read_text())


@pytest.fixture(scope="module")
def pipe():
    loaded = diffusers.StableDiffusionPipeline.from_pretrained(
        CHECKPOINT, safety_checker=None, dtype=torch.float32
    )
    loaded.set_progress_bar_config(disable=True)
    return loaded


def test_it_is_small():
    assert sum(path.stat().st_size for path in CHECKPOINT.rglob("*") if path.is_file()) <= 25_000_000


def test_the_unet_has_the_shape_of_stable_diffusion_2_1():
    unet = config("unet")
    assert unet["down_block_types"] == ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"]
    assert unet["up_block_types"] == ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3
    assert unet["mid_block_type"] == "UNetMidBlock2DCrossAttn"
    assert (unet["use_linear_projection"], unet["layers_per_block"], unet["norm_num_groups"]) == (True, 2, 32)
    assert unet["cross_attention_dim"] == config("text_encoder")["hidden_size"]
    assert (unet["sample_size"], unet["in_channels"], unet["out_channels"]) == (16, 4, 4)
    heads = unet["attention_head_dim"]
    assert len(set(heads)) > 1
    assert all(width % count == 0 for width, count in zip(unet["block_out_channels"], heads, strict=True))


def test_the_other_parts_have_the_shape_of_stable_diffusion_2_1():
    vae, text, schedule = config("vae"), config("text_encoder"), config("scheduler", "scheduler_config.json")
    assert (len(vae["block_out_channels"]), vae["layers_per_block"], vae["latent_channels"]) == (4, 2, 4)
    assert (text["hidden_act"], text["max_position_embeddings"]) == ("gelu", 77)
    assert (text["eos_token_id"], text["vocab_size"]) == (665, 666)
    wanted = {
        "beta_schedule": "scaled_linear",
        "beta_start": 0.00085,
        "beta_end": 0.012,
        "num_train_timesteps": 1000,
        "clip_sample": False,
        "set_alpha_to_one": False,
        "steps_offset": 1,
        "prediction_type": "epsilon",
    }
    assert schedule.items() >= wanted.items()


@pytest.mark.parametrize("part", WEIGHTS)
def test_weights_are_finite_halves(part):
    with safe_open(CHECKPOINT / part / WEIGHTS[part], "np") as file:
        for name in file.keys():  # noqa: SIM118 (a safetensors file is not a dict)
            tensor = file.get_tensor(name)
            assert tensor.dtype == np.float16, name
            assert np.isfinite(tensor).all(), name


def test_text_encoder_tensors_carry_the_published_prefix_and_are_all_read(pipe):
    with safe_open(CHECKPOINT / "text_encoder" / "model.safetensors", "pt") as file:
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert all(name.startswith("text_model.") for name in stored)
    held = {
        name.removeprefix("text_model."): tensor for name, tensor in pipe.text_encoder.state_dict().items()
    }
    assert held.keys() == {name.removeprefix("text_model.") for name in stored}
    assert all(torch.equal(held[name.removeprefix("text_model.")], stored[name].float()) for name in stored)


def test_the_training_record_names_recipe_and_versions():
    record = config(".", "training.json")
    assert record["recipe"]["seed"] == 0
    assert {"torch", "diffusers", "transformers", "device"} <= record["versions"].keys()
    assert record["autoencoder"]["psnr_db"] > 35


def test_held_back_captions_are_drawn(pipe):
    texts = captions("held-back", 3, seed=9)
    noise = [torch.Generator().manual_seed(i) for i in range(3)]
    made = pipe(texts, num_inference_steps=20, guidance_scale=7.5, generator=noise, output_type="np").images
    pictures = (made * 255).round().astype(np.uint8)
    assert pictures.shape == (3, 128, 128, 3)
    assert np.mean([score(picture, text) for picture, text in zip(pictures, texts, strict=True)]) >= 0.9


def test_measuring_writes_figures_and_a_sheet(tmp_path):
    command = runpy.run_path(str(MEASURE))["main"]
    result = CliRunner().invoke(
        command, ["--out", str(tmp_path), "-n", "2", "--steps", "1"], catch_exceptions=False
    )
    assert result.exit_code == 0
    record = json.loads((tmp_path / "demo-checkpoint.json").read_text())
    assert record["captions"]["count"] == 2
    assert 0 <= record["guidance"]["7.5"]["score"] <= 1
    assert (tmp_path / "demo-checkpoint.png").stat().st_size > 1000
