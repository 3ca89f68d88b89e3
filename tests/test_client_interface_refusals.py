"""Interfaces that make no sense, or that a network cannot have, are refused in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import msd
from msd.cli import msd as command
from msd.conversion.client_interface import read_interface
from msd.errors import BadConfig
from tests import checkpoints
from tests.client_files import OWN, own_file


def changed(**replaced: str) -> str:
    text = OWN
    for old, new in replaced.items():
        text = text.replace(OLD[old], new)
    return text


OLD = {
    "inputs": 'inputs = [{ name = "z", of = "latent", layout = "NCHW" }]',
    "outputs": 'outputs = [{ name = "rgb", of = "image" }]',
    "network": "[networks.vae_decoder]",
    "top": "[networks",
}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nonsense", "is not an interface"),
        ('description = "x"\nsource = "y"\n[networks]\n', "it names no networks"),
        (changed(top="colour = 1\n[networks"), "unknown key 'colour'"),
        (changed(outputs=OLD["outputs"] + '\nkey = "x"'), "vae_decoder: unknown key 'key'"),
        (
            changed(inputs='inputs = [{ nam = "z", of = "latent" }]'),
            "inputs: unknown key 'nam'; did you mean name?",
        ),
        (changed(inputs='inputs = [{ name = "z" }]'), "lacks 'of'"),
        (changed(inputs='inputs = [{ name = "z", of = "latent", layout = "CHW" }]'), "is 'CHW', not one of"),
        (changed(inputs='inputs = [{ name = "z", of = "latent", rows = 3 }]'), "has 'z' of 3 rows"),
        (
            changed(inputs='inputs = [{ name = "z", of = "latent" }, { name = "z", of = "mask" }]'),
            "vae_decoder has 'z' twice",
        ),
        (
            changed(inputs='inputs = [{ name = "a", of = "latent" }, { name = "b", of = "latent" }]'),
            "vae_decoder has 'latent' under two names",
        ),
        (changed(top="batch = 3\n[networks"), "batch is 3; the networks are made for 1 or 2"),
        (
            changed(top='time_embeddings = { file = "t.bin", steps = 20 }\n[networks'),
            "time_embeddings are written, but no network takes 'time_embedding'",
        ),
        (
            changed(top='time_embeddings = { file = "../t", steps = 20 }\n[networks'),
            "the file '../t'; a plain name",
        ),
        (changed(top='time_embeddings = { file = "t", steps = 0 }\n[networks'), "for 0 steps; 1 to 1000"),
    ],
)
def test_an_interface_that_makes_no_sense_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(BadConfig) as refused:
        read_interface(own_file(tmp_path, text))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            changed(network="[networks.decoder]"),
            "the interface binds decoder, and Stable Diffusion 1.x and 2.x has",
        ),
        (
            changed(inputs='inputs = [{ name = "z", of = "noise" }]'),
            "binds 'noise' of vae_decoder, whose inputs are",
        ),
        (changed(inputs="inputs = []"), "has no place for 'latent' among the inputs of vae_decoder"),
        (
            changed(inputs='inputs = [{ name = "p", of = "positions" }, { name = "z", of = "latent" }]'),
            "gives vae_decoder positions, and it adds no table",
        ),
        (
            changed(inputs='inputs = [{ name = "p", of = "time_embedding" }, { name = "z", of = "latent" }]'),
            "computes the time embedding outside vae_decoder, which has not two layers",
        ),
    ],
)
def test_an_interface_that_a_network_cannot_have_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(BadConfig) as refused:
        msd.convert(None, tmp_path / "out", components=["vae_decoder"], interface=own_file(tmp_path, text))
    assert sentence in str(refused.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"interface": "mlperf"},
            "no interface is called 'mlperf'; there are .*did you mean 'mlperf-mobile'",
        ),
        ({"interface": "litert-torch"}, "is for batch 2, and this conversion has 1; give --batch 2"),
        ({"interface": "mlperf-mobile", "batch": 2}, "is for batch 1, and this conversion has 2"),
        ({"interface": "mlperf-mobile", "recipe": "tflite-gpu-w8"}, "a file of its own, which the interface"),
        (
            {"interface": "mlperf-mobile", "sizes": (msd.ImageSize(128, 128), msd.ImageSize(64, 128))},
            "several sizes in one file have signatures of their own",
        ),
        (
            {"interface": "mlperf-mobile", "calibration": "random-words"},
            "rounds text_encoder, unet and vae_decoder by inputs of msd's own",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path, options: Mapping[str, Any], sentence: str
) -> None:
    with pytest.raises(BadConfig, match=sentence):
        msd.convert(None, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("component", "sentence"),
    [
        ("unet", "the interface has no place for 'guidance_embedding' among the inputs of unet"),
        ("vae_decoder", ""),
    ],
)
def test_a_dry_run_refuses_inputs_without_a_place(component: str, sentence: str, tmp_path: Path) -> None:
    """Before anything is traced; of what is converted."""
    checkpoints.write(tmp_path / "lcm", checkpoints.vary(checkpoints.TINY, unet={"time_cond_proj_dim": 20}))
    words = [
        "convert",
        tmp_path / "lcm",
        "--dry-run",
        "--interface",
        "mlperf-mobile",
        "--component",
        component,
    ]
    result = CliRunner().invoke(command, [*map(str, words)])
    assert (result.exit_code, sentence in result.stderr) == (1 if sentence else 0, True)
