"""The random checkpoints are what their own libraries read: torch, diffusers, transformers."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

from msd.conversion.sources.formats import open_checkpoint
from scripts.make_random_checkpoint import (
    FORMATS,
    Random,
    main,
    single_file_tensors,
    write_ckpt,
    write_diffusers,
)
from tests import single_files, xl_checkpoints
from tests.late import diffusers

CONFIG = single_files.SECOND


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("made") / "folder"
    write_diffusers(made, CONFIG, Random(1, "float16"))
    return made


@pytest.fixture(scope="module")
def single(folder: Path) -> Path:
    return single_files.write(folder.parent / "one.safetensors", CONFIG, "float16", seed=1)


def test_diffusers_draws_with_the_folder(folder: Path) -> None:
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(folder, safety_checker=None, dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    pixels = pipe("a cat", height=16, width=16, num_inference_steps=2, output_type="np").images
    assert np.isfinite(pixels).all()
    assert pixels.std() > 0.01


def test_stable_diffusion_xl_in_shards_is_what_diffusers_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoders = xl_checkpoints.SINGLE_ENCODERS
    config = {
        **encoders,
        "unet": xl_checkpoints.SINGLE_UNET,
        "vae": xl_checkpoints.SINGLE_VAE,
        "scheduler": CONFIG["scheduler"],
    }
    monkeypatch.setattr("scripts.make_random_checkpoint.SHARD", 1_000_000)
    write_diffusers(tmp_path / "xl", config, Random(1, "float16"))
    assert len(list((tmp_path / "xl/unet").glob("*-of-*.safetensors"))) > 1
    pipe = diffusers.StableDiffusionXLPipeline.from_pretrained(tmp_path / "xl", dtype=torch.float32)
    theirs, ours = pipe.unet.state_dict(), open_checkpoint(tmp_path / "xl").weights["unet"]
    assert ours.keys() == theirs.keys()
    for name in ("conv_in.weight", "conv_out.bias"):
        assert np.array_equal(ours[name].load(), theirs[name].numpy())


@pytest.mark.parametrize(
    ("component", "subfolder", "kind"),
    [("unet", "unet", "UNet2DConditionModel"), ("vae_decoder", "vae", "AutoencoderKL")],
)
def test_diffusers_reads_the_single_file_as_we_do(
    component: str, subfolder: str, kind: str, folder: Path, single: Path
) -> None:
    made = getattr(diffusers, kind)
    module = made.from_single_file(single, config=str(folder), subfolder=subfolder, local_files_only=True)
    state, ours = module.state_dict(), open_checkpoint(single).weights[component]
    others = {name for name in state if name.startswith(("encoder.", "quant_conv."))}
    assert ours.keys() == state.keys() - others
    for name, weights in ours.items():
        np.testing.assert_array_equal(weights.load(), state[name].float().numpy())


def test_torch_reads_the_ckpt(single: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.ckpt"
    write_ckpt(path, single_file_tensors(CONFIG), Random(1, "float16"), global_step=7)
    found = torch.load(path, weights_only=True)
    wanted = load_file(single)
    assert found["global_step"] == 7
    assert found["state_dict"].keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found["state_dict"][name].dtype == torch.float16
        torch.testing.assert_close(found["state_dict"][name], tensor, rtol=0, atol=0)


def test_a_seed_is_a_checkpoint(single: Path, tmp_path: Path) -> None:
    again = single_files.write(tmp_path / "again.safetensors", CONFIG, "float16", seed=1)
    other = single_files.write(tmp_path / "other.safetensors", CONFIG, "float16", seed=2)
    assert again.read_bytes() == single.read_bytes() != other.read_bytes()


@pytest.mark.parametrize("format", FORMATS)
def test_one_tensor_is_in_memory_at_a_time(format: str, tmp_path: Path) -> None:
    """The largest has 25 MB as float32, of 80 MB in all; float16 values are made of float32 ones."""
    FORMATS[format](tmp_path / "warm", CONFIG, Random(0, "float32"))
    tracemalloc.start()
    FORMATS[format](tmp_path / "made", CONFIG, Random(0, "float32"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    largest = 49408 * 128 * 4
    assert peak < 2.5 * largest


def test_the_command_knows_the_public_models(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["single-file", str(tmp_path / "a"), "--model", "sd99"])
    assert result.exit_code == 2
    assert "'sd15'" in result.output
