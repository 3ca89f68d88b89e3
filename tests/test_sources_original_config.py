"""CompVis's .yaml beside a single file: its numbers are used and said, and senseless ones refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from msd.conversion.sources.formats import open_checkpoint
from msd.conversion.sources.single_file import open_single_file
from msd.errors import BadCheckpoint
from msd.run.runtime.diffusion import Diffusion
from tests import single_files
from tests.late import diffusers

PUBLIC = """
model:
  target: ldm.models.diffusion.ddpm.LatentDiffusion
  params:
    linear_start: 0.00085
    linear_end: 0.0120
    timesteps: 1000
    scale_factor: 0.18215
    low_scale_config:
      params:
        timesteps: 7
        linear_start: 0.5
"""
OTHER = PUBLIC.replace("0.0120", '"0.02"  # longer').replace("0.18215", "0.25").replace("1000", "500")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    single_files.write(tmp_path / "own.safetensors", single_files.FIRST)
    return tmp_path / "own.safetensors"


def test_the_public_numbers_change_nothing_and_are_not_said(path: Path) -> None:
    without = open_checkpoint(path)
    path.with_suffix(".yaml").write_text(PUBLIC)
    found = open_checkpoint(path)
    assert found.remarks == without.remarks == ()
    assert found.configs == without.configs
    ignored = {"_prediction_type_because": ""}
    assert found.scheduler | ignored == without.scheduler | ignored


def test_other_numbers_are_used_and_said(path: Path) -> None:
    path.with_suffix(".yaml").write_text(OTHER)
    found = open_checkpoint(path)
    assert found.remarks == (
        "own.yaml beside the file says linear_end = 0.02, which is used in place of 0.012",
        "own.yaml beside the file says timesteps = 500, which is used in place of 1000",
        "own.yaml beside the file says scale_factor = 0.25, which is used in place of 0.18215",
    )
    betas = np.linspace(0.00085**0.5, 0.02**0.5, 500) ** 2
    alphas = Diffusion.from_config(found.scheduler).alphas()
    assert np.allclose(alphas, np.cumprod(1 - betas), rtol=0, atol=1e-6)
    assert {found.configs[name].scaling_factor for name in ("vae_encoder", "vae_decoder")} == {0.25}


def test_the_scale_is_the_one_that_diffusers_reads(path: Path) -> None:
    config = yaml.safe_load(OTHER)
    ddconfig = {"ch_mult": [1], "resolution": 8, "in_channels": 3, "out_ch": 3}
    ddconfig |= {"z_channels": 4, "num_res_blocks": 1, "ch": 32}
    config["model"]["params"]["first_stage_config"] = {"params": {"ddconfig": ddconfig}}
    loaders = diffusers.loaders.single_file_utils
    theirs = loaders.create_vae_diffusers_config_from_ldm(config, {})["scaling_factor"]
    path.with_suffix(".yaml").write_text(OTHER)
    assert open_checkpoint(path).configs["vae_decoder"].scaling_factor == theirs


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("linear_start: 0.00085", "linear_start: fast", "a number above 0, up to 1, was expected"),
        ("linear_end: 0.0120", "linear_end: 12", "a number above 0, up to 1, was expected"),
        ("timesteps: 1000", "timesteps: 10.5", "a whole number above 0, up to 100000, was expected"),
        ("scale_factor: 0.18215", "scale_factor: nan", r"a number above 0, up to 1e\+06, was expected"),
        ("scale_factor: 0.18215", "scale_factor: 0", r"a number above 0, up to 1e\+06, was expected"),
    ],
)
def test_senseless_numbers_are_refused(key: str, value: str, wanted: str, path: Path) -> None:
    path.with_suffix(".yaml").write_text(PUBLIC.replace(key, value))
    with pytest.raises(BadCheckpoint, match=rf"own\.yaml says {value}, and {wanted}"):
        open_checkpoint(path)


SGM = """
model:
  target: sgm.models.diffusion.DiffusionEngine
  params:
    scale_factor: 0.18215
    denoiser_config:
      target: sgm.modules.diffusionmodules.denoiser.DiscreteDenoiser
      params:
        num_idx: 500
        scaling_config:
          target: sgm.modules.diffusionmodules.denoiser_scaling.VScaling
        discretization_config:
          target: sgm.modules.diffusionmodules.discretizer.LegacyDDPMDiscretization
"""


def test_what_generative_models_name_as_classes_is_read(path: Path) -> None:
    """And where the file's metadata, which count, say something else, it is said."""
    path.with_suffix(".yaml").write_text(SGM)
    fewer = "own.yaml beside the file says timesteps = 500, which is used in place of 1000"
    assert open_checkpoint(path).remarks == (
        "the file's metadata say that its U-Net predicts noise, which counts, and own.yaml beside it, which"
        " other programs read, velocity; --prediction-type takes the other",
        fewer,
    )
    assert open_checkpoint(path, "v_prediction").remarks == (fewer,)
    path.with_suffix(".yaml").write_text(SGM.replace("VScaling", "EpsScaling").replace("500", "1000"))
    assert open_checkpoint(path).remarks == ()


@pytest.mark.parametrize(
    ("name", "betas"),
    [
        ("linear", np.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2),
        ("sqrt_linear", np.linspace(0.00085, 0.012, 1000)),
        ("cosine", None),
    ],
)
def test_the_schedule_of_betas_is_compviss(name: str, betas: Any, path: Path) -> None:
    """`cosine` as make_beta_schedule in ldm/modules/diffusionmodules/util.py computes it."""
    if betas is None:
        bars = np.cos((np.arange(1001) / 1000 + 8e-3) / (1 + 8e-3) * np.pi / 2) ** 2
        betas = np.clip(1 - bars[1:] / bars[:-1], 0, 0.999)
    path.with_suffix(".yaml").write_text(f"{PUBLIC}    beta_schedule: {name}\n")
    found = open_checkpoint(path)
    alphas = Diffusion.from_config(found.scheduler).alphas()
    assert np.allclose(alphas, np.cumprod(1 - betas), rtol=0, atol=1e-6)
    told = f"own.yaml beside the file says beta_schedule = {name}, which is used in place of linear"
    assert found.remarks == (() if name == "linear" else (told,))


def test_a_text_encoder_s_layers_that_are_left_out_are_said(path: Path) -> None:
    """As v1-inference_clip_skip_2.yaml of other programs has them."""
    config = """    cond_stage_config:
      target: ldm.modules.encoders.modules.FrozenCLIPEmbedder
      params:
        layer: "hidden"
        layer_idx: -2
"""
    path.with_suffix(".yaml").write_text(PUBLIC + config)
    told = "own.yaml beside the file says layer: hidden, which is not read; --clip-skip 1 does the same"
    assert open_checkpoint(path).remarks == (told,)
    path.with_suffix(".yaml").write_text((PUBLIC + config).replace("-2", "10"))
    assert open_checkpoint(path).remarks == (told.replace("skip 1", "skip 2"),)
    path.with_suffix(".yaml").write_text((PUBLIC + config).replace('"hidden"', "last"))
    assert open_checkpoint(path).remarks == ()
    second = (PUBLIC + config).replace("FrozenCLIP", "FrozenOpenCLIP").replace("hidden", "penultimate")
    path.with_suffix(".yaml").write_text(second)
    assert open_checkpoint(path).remarks == ()
    path.with_suffix(".yaml").write_text(second.replace("penultimate", "last"))
    told = "own.yaml beside the file says layer: last, which is not read: a 2.x leaves its text encoder's"
    assert open_checkpoint(path).remarks == (f"{told} last out",)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"{PUBLIC}    beta_schedule: sqrt\n", "says beta_schedule: sqrt, and only linear, sqrt_linear, cos"),
        (f"{PUBLIC}    beta_schedule: cosine\n    cosine_s: 0.1\n", "says cosine_s: 0.1, and only 0.008 is"),
        (f"{PUBLIC}    given_betas: [0.1, 0.2]\n", "says given_betas, and betas are made of linear_st"),
        (
            SGM.replace("VScaling", "EDMScaling"),
            "says scaling_config: EDMScaling, and only EpsScaling and",
        ),
        (
            SGM.replace("LegacyDDPM", "EDM"),
            "says discretization_config: EDMDiscretization, and only Legacy",
        ),
    ],
)
def test_what_cannot_be_converted_is_refused(text: str, wanted: str, path: Path) -> None:
    path.with_suffix(".yaml").write_text(text)
    with pytest.raises(BadCheckpoint, match=rf"own\.yaml {re.escape(wanted)}"):
        open_checkpoint(path)


def test_no_given_betas_are_none(path: Path) -> None:
    path.with_suffix(".yaml").write_text(f"{PUBLIC}    given_betas: null\n    beta_schedule: linear\n")
    assert open_checkpoint(path).remarks == ()


UNET = """
    unet_config:
      target: ldm.modules.diffusionmodules.openaimodel.UNetModel
      params:
        image_size: 32 # unused
        in_channels: 4
        out_channels: 4
        model_channels: 32
        attention_resolutions: [ 4, 2, 1 ]
        num_res_blocks: 2
        channel_mult: [ 1, 2, 3 ]  # levels
        num_heads: 8
        use_spatial_transformer: True
        transformer_depth: 1
        context_dim: 64
        legacy: False
    first_stage_config:
      target: ldm.models.autoencoder.AutoencoderKL
      params:
        embed_dim: 4
        ddconfig:
          double_z: true
          z_channels: 4
          resolution: 256
          in_channels: 3
          out_ch: 3
          ch: 32
          ch_mult:
          - 1
          - 1
          - 2
          num_res_blocks: 2
          attn_resolutions: []
          dropout: 0.0
"""


def beside(path: Path, text: str) -> Path:
    path.with_suffix(".yaml").write_text(text)
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_structure_that_the_weights_have_is_not_said(end: str, path: Path) -> None:
    without = open_checkpoint(path)
    path.with_suffix(".yaml").write_bytes((PUBLIC + UNET).replace("\n", end).encode())
    found = open_checkpoint(path)
    assert (found.remarks, found.configs) == ((), without.configs)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_ends_of_lines_change_nothing(end: str, path: Path) -> None:
    path.with_suffix(".yaml").write_bytes(OTHER.replace("\n", end).encode())
    assert len(open_checkpoint(path).remarks) == 3


@pytest.mark.parametrize(
    ("says", "heads", "told"),
    [
        ("num_heads: 4", (4, 4, 4), "num_heads = 4, which is used in place of 8 heads"),
        ("num_head_channels: 8", (4, 8, 12), "num_head_channels = 8, which is used in place of 8 heads"),
        (
            "num_heads: -1\n        num_head_channels: 32",
            (1, 2, 3),
            "num_head_channels = 32, which is used",
        ),
        ("num_heads: 8\n        num_head_channels: -1", (8, 8, 8), ""),
    ],
)
def test_the_number_of_heads_is_the_one_that_it_says(
    says: str, heads: tuple[int, ...], told: str, path: Path
) -> None:
    found = open_checkpoint(beside(path, PUBLIC + UNET.replace("num_heads: 8", says)))
    assert found.configs["unet"].heads == heads
    said = f"own.yaml beside the file says {told}"
    assert len(found.remarks) == bool(told)
    assert all(remark.startswith(said) for remark in found.remarks)


def test_the_heads_of_a_2_x_are_usually_64_wide(tmp_path: Path) -> None:
    path = single_files.write(tmp_path / "own.safetensors", single_files.SECOND)
    usual = open_checkpoint(path)
    network = (
        UNET.partition("    first_stage")[0].replace("[ 1, 2, 3 ]", "[1, 2]").replace(": 32\n", ": 64\n")
    )
    network = network.replace("num_res_blocks: 2", "num_res_blocks: 1").replace("dim: 64", "dim: 128")
    open_checkpoint(beside(path, PUBLIC + network.replace("num_heads: 8", "num_head_channels: 64")))
    found = open_checkpoint(beside(path, PUBLIC + network.replace("num_heads: 8", "num_head_channels: 32")))
    assert (usual.configs["unet"].heads, found.configs["unet"].heads) == ((1, 2), (2, 4))
    assert found.remarks[-1] == (
        "own.yaml beside the file says num_head_channels = 32, which is used in place of 64 channels a head"
    )
    linear = network.replace("legacy: False", "use_linear_in_transformer: False")
    with pytest.raises(
        BadCheckpoint, match="use_linear_in_transformer: false, and the weights have true: it"
    ):
        open_checkpoint(beside(path, PUBLIC + linear.replace("num_heads: 8", "num_head_channels: 64")))


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("in_channels: 4", "in_channels: 9", "and the weights have 4: it is another model's; remove it"),
        ("context_dim: 64", "context_dim: 1024", "and the weights have 64: it is another model's"),
        (
            "transformer_depth: 1",
            "transformer_depth: [1, 2, 10]",
            r"and the weights have \[1, 1, any\]: it is",
        ),
        (
            "num_res_blocks: 2\n        channel",
            "num_res_blocks: 3\n        channel",
            "and the weights have 2: it",
        ),
        ("z_channels: 4", "z_channels: 16", "and the weights have 4: it is another model's"),
        ("num_heads: 8", "num_heads: 5", "which does not divide the 32 channels of a level; cor"),
        ("num_heads: 8", "num_heads: eight", "a whole number above 0 was expected"),
        ("num_heads: 8", "num_heads: 0", "a whole number above 0 was expected"),
        ("legacy: False", "disable_self_attentions: [true, false]", "true, and only false is supported"),
        ("double_z: true", "tanh_out: True", "true, and only false is supported"),
    ],
)
def test_another_structure_than_the_weights_have_is_refused(
    key: str, value: str, wanted: str, path: Path
) -> None:
    says = value.partition(":")[0]
    with pytest.raises(BadCheckpoint, match=rf"own\.yaml .*says {says}: .*{wanted}"):
        open_checkpoint(beside(path, PUBLIC + UNET.replace(key, value)))


def test_other_channels_are_refused_unless_they_are_another_autoencoder_s(path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"says model_channels · channel_mult: \[64, 128, 192\], and the"):
        open_checkpoint(beside(path, PUBLIC + UNET.replace("model_channels: 32", "model_channels: 64")))
    beside(path, PUBLIC + UNET.replace("ch: 32", "ch: 64"))
    with pytest.raises(BadCheckpoint, match=r"says ch · ch_mult: \[64, 64, 128\], and the weights have"):
        open_checkpoint(path)
    open_single_file(path, vae_is_given=True)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("model: [1, 2", "expected ',' or ']'"),
        ("model: &all {params: 1}\nother: *all\n", "it has aliases, which are not read"),
        ("model: " + "[" * 65 + "]" * 65, "it is nested more than 64 deep"),
        ("model: {params: " + "9" * 60 + "}", "an integer of 200 bits"),
    ],
)
def test_what_is_no_yaml_is_refused(text: str, wanted: str, path: Path) -> None:
    with pytest.raises(
        BadCheckpoint, match=rf"cannot read .*own\.yaml, which is beside the.*{re.escape(wanted)}"
    ):
        open_checkpoint(beside(path, text))


def test_flow_style_and_comments_are_read_as_yaml_reads_them(path: Path) -> None:
    stage = "first_stage_config: {params: {ddconfig: {ch: 32}}}"
    text = f"model: {{params: {{linear_end: 0.02, # longer\n  {stage}}}}}\n"
    found = open_checkpoint(beside(path, text))
    assert found.remarks == (
        "own.yaml beside the file says linear_end = 0.02, which is used in place of 0.012",
    )


def test_another_program_s_yaml_says_nothing(path: Path) -> None:
    usual = open_checkpoint(path)
    found = open_checkpoint(beside(path, "linear_end: 0.02\n"))
    assert (found.remarks, found.configs) == (usual.remarks, usual.configs)
