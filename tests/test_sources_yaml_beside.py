"""A .yaml beside the file of a ControlNet, or of an autoencoder, is read as that beside a checkpoint is."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from msd.conversion.job import Job, open_job
from msd.conversion.settings import Settings
from msd.errors import BadCheckpoint
from tests import checkpoints, controlnets, single_files

CONTROL = """
model:
  target: cldm.cldm.ControlLDM
  params:
    linear_end: 0.5
    only_mid_control: False
    control_stage_config:
      target: cldm.cldm.ControlNet
      params:
        in_channels: 4
        hint_channels: 3
        model_channels: 16
        attention_resolutions: [ 4, 2, 1 ]
        num_res_blocks: 2
        channel_mult: [ 1, 2, 3, 4 ]
        num_heads: 2
        use_spatial_transformer: True
        transformer_depth: 1
        context_dim: 48
        legacy: False
    unet_config:
      target: cldm.cldm.ControlledUnetModel
      params:
        num_heads: 4
        disable_self_attentions: True
"""
VAE = """
model:
  target: ldm.models.autoencoder.AutoencoderKL
  params:
    given_betas: [0.5]
    scale_factor: 0.18215
    ddconfig:
      z_channels: 4
      resolution: 256
      in_channels: 3
      out_ch: 3
      ch: 32
      ch_mult: [ 1, 2 ]
      num_res_blocks: 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint "sd15" with a ControlNet's file, and an autoencoder's file in each layout."""
    folder = tmp_path_factory.mktemp("beside")
    unet = checkpoints.write(folder / "sd15", checkpoints.SD15)["unet"]
    controlnets.write_file(folder / "canny.safetensors", controlnets.make(unet, 1, **controlnets.OF_SD15))
    whole = load_file(single_files.write(folder / "whole.safetensors", single_files.SECOND))
    own = {name: tensor for name, tensor in whole.items() if name.startswith("first_stage_model.")}
    save_file(own, folder / "compvis.safetensors")
    checkpoints.write(folder / "second", single_files.SECOND)
    (folder / "second/vae/diffusion_pytorch_model.safetensors").rename(folder / "diffusers.safetensors")
    return folder


def beside(path: Path, text: str, given: Path) -> Path:
    """Return the path of a file like the one given, with a .yaml beside it."""
    path.symlink_to(given)
    path.with_suffix(".yaml").write_text(text)
    return path


def steered(folder: Path, path: Path) -> Job:
    return open_job(folder / "sd15", Settings(rules=(), controlnets=[(path, "canny")]))


def decoded(folder: Path, path: Path) -> Job:
    return open_job(folder / "whole.safetensors", Settings(rules=(), vae=(path,)))


def test_what_a_controlnet_has_anyway_changes_nothing(folder: Path, tmp_path: Path) -> None:
    """Nor does what its configuration says of the model that it was trained with."""
    usual = steered(folder, folder / "canny.safetensors").checkpoint
    found = steered(folder, beside(tmp_path / "own.safetensors", CONTROL, folder / "canny.safetensors"))
    assert found.checkpoint.configs == usual.configs
    assert found.checkpoint.remarks == usual.remarks == ()


@pytest.mark.parametrize(
    ("says", "heads"), [("num_heads: 4", (4, 4, 4, 4)), ("num_head_channels: 16", (1, 2, 3, 4))]
)
def test_a_controlnet_s_heads_are_used_and_said(
    says: str, heads: tuple[int, ...], folder: Path, tmp_path: Path
) -> None:
    text = CONTROL.replace("num_heads: 2", says)
    found = steered(folder, beside(tmp_path / "own.safetensors", text, folder / "canny.safetensors"))
    assert found.checkpoint.configs["controlnet_canny"].heads == heads
    assert found.checkpoint.configs["unet"].heads == (2, 2, 2, 2)
    assert found.checkpoint.remarks == (
        f"own.yaml beside the file says {says.replace(':', ' =')}, which is used in place of 2 heads",
    )


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("context_dim: 48", "context_dim: 1024", "and the weights have 48: it is another model's; remove it"),
        ("num_heads: 2", "num_heads: 5", "which does not divide the 16 channels of a level; correct it"),
        ("only_mid_control: False", "only_mid_control: True", "and only false is supported"),
        (
            "only_mid_control: False",
            "global_average_pooling: True",
            "and only false is supported",
        ),
        ("legacy: False", "disable_self_attentions: [true]", "true, and only false is supported"),
        ("model:", "model: [", "cannot read"),
    ],
)
def test_a_controlnet_that_it_contradicts_is_refused(
    key: str, value: str, wanted: str, folder: Path, tmp_path: Path
) -> None:
    path = beside(tmp_path / "own.safetensors", CONTROL.replace(key, value), folder / "canny.safetensors")
    with pytest.raises(BadCheckpoint, match=rf"own\.safetensors does not fit sd15: .*{wanted}") as refusal:
        steered(folder, path)
    assert "own.yaml" in str(refusal.value)


@pytest.mark.parametrize("name", ["control_v11e_sd15_shuffle", "control_v11e_sd15_shuffle_fp16"])
def test_a_controlnet_whose_name_says_that_it_averages_is_refused(
    name: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / f"{name}.safetensors").symlink_to(folder / "canny.safetensors")
    with pytest.raises(BadCheckpoint, match="its residuals are averaged, as its name says"):
        steered(folder, tmp_path / f"{name}.safetensors")


@pytest.mark.parametrize("layout", ["compvis", "diffusers"])
def test_an_autoencoder_s_scale_is_used_and_said(layout: str, folder: Path, tmp_path: Path) -> None:
    given = folder / f"{layout}.safetensors"
    for scale, said in (
        ("0.18215", ()),
        (
            "0.25",
            ("own.yaml beside the file says scale_factor = 0.25, which is used in place of 0.18215",),
        ),
    ):
        (tmp_path / scale).mkdir()
        text = VAE.replace("0.18215", scale)
        found = decoded(folder, beside(tmp_path / scale / "own.safetensors", text, given)).checkpoint
        usual = decoded(folder, given).checkpoint
        assert found.remarks[len(usual.remarks) :] == said
        assert {found.configs[f"vae_{half}"].scaling_factor for half in ("encoder", "decoder")} == {
            float(scale)
        }


@pytest.mark.parametrize("layout", ["compvis", "diffusers"])
@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        (
            "ch: 32",
            "ch: 64",
            r"own.yaml beside the file says ch · ch_mult: \[64, 128\], and the weights have",
        ),
        ("0.18215", "0", "own.yaml says scale_factor: 0, and a number above 0, up to"),
        ("ch: 32", "ch: 32\n      tanh_out: true", "own.yaml says tanh_out: true, and only false is"),
    ],
)
def test_an_autoencoder_that_it_contradicts_is_refused(
    key: str, value: str, wanted: str, layout: str, folder: Path, tmp_path: Path
) -> None:
    given = folder / f"{layout}.safetensors"
    with pytest.raises(BadCheckpoint, match=wanted):
        decoded(folder, beside(tmp_path / "own.safetensors", VAE.replace(key, value), given))
