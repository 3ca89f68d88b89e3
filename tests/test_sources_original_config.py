"""CompVis's .yaml beside a single file: its numbers are used and said, and senseless ones refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from msd.conversion.sources.formats import open_checkpoint
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
