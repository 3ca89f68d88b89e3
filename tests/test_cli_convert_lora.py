"""msd-convert --lora: the file computes what torch does with the LoRA fused; the manifest says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from msd.bundle import Adapter, file_facts, open_bundle
from msd.cli.convert import convert
from msd.graph.parity import psnr
from msd.run.runners.interpreter import Interpreter
from tests import checkpoints, loras
from tests.loras import Tiny
from tests.reference import draw, reference, timestep_embedding
from tests.stable_diffusion import networks_of


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return Tiny(tmp_path_factory.mktemp("tiny"), checkpoints.TINY)


@pytest.fixture(scope="module")
def lora(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a LoRA for the U-Net, weak enough that the network still works."""
    weak = {
        layer: (0.2 * down, 0.2 * up, alpha)
        for layer, (down, up, alpha) in tiny.factors.items()
        if layer[0] == "unet"
    }
    return loras.save(tmp_path_factory.mktemp("lora") / "x.safetensors", loras.kohya(weak))


def run(*args: Any) -> Result:
    return CliRunner().invoke(convert, [str(a) for a in args])


def refused(result: Result) -> str:
    assert result.exit_code == 1, result.output
    return result.stderr.strip().splitlines()[-1]


def test_the_file_computes_what_torch_does_with_the_lora_fused(
    tiny: Tiny, lora: Path, tmp_path: Path
) -> None:
    out, c = tmp_path / "out", tiny.checkpoint
    done = run(tiny.folder, "--lora", f"{lora}:0.7", "-o", out, "--component", "unet", "--recipe", "float32")
    assert done.exit_code == 0, done.output
    network = networks_of(c)["unet"]
    inputs = draw(network.inputs, c.configs["text_encoder"].vocabulary, np.random.default_rng(3))
    fused = loras.fuse(tiny.modules, tiny.folder / "tokenizer", [(lora, 0.7)])
    wanted, unmerged = (reference(modules, "unet", inputs) for modules in (fused, tiny.modules))
    inputs["timestep_embedding"] = timestep_embedding(tiny.modules, inputs["timestep"])
    with Interpreter(out / "unet.tflite", float_weights=True) as written:
        fed = {name: inputs[name].reshape(port.shape) for name, port in written.inputs.items()}
        (found,) = written.run(fed).values()
    assert psnr(wanted, found) >= 60
    assert psnr(unmerged, found) < 40
    source = open_bundle(out).manifest.source
    assert source.adapters == (Adapter("lora/x.safetensors", 0.7),)
    assert source.files["lora/x.safetensors"] == file_facts(lora)


def test_what_a_lora_does_not_change_is_made_from_the_same(tiny: Tiny, lora: Path, tmp_path: Path) -> None:
    made = {}
    for name, options in {"no": (), "full": ("--lora", lora), "half": ("--lora", f"{lora}:0.5")}.items():
        out = tmp_path / name
        done = run(tiny.folder, "-o", out, "--component", "unet", "--component", "text_encoder", *options)
        assert done.exit_code == 0, done.output
        made[name] = open_bundle(out).manifest.components
    assert made["no"]["text_encoder"] == made["full"]["text_encoder"] == made["half"]["text_encoder"]
    assert len({parts["unet"].made_from for parts in made.values()}) == 3
    assert len({parts["unet"].sha256 for parts in made.values()}) == 3


def test_a_folder_with_another_lora_is_kept(tiny: Tiny, lora: Path, tmp_path: Path) -> None:
    command = (tiny.folder, "-o", tmp_path / "out", "--component", "text_encoder")
    assert run(*command, "--lora", lora).exit_code == 0
    assert run(*command, "--lora", lora).exit_code == 0
    said = refused(run(*command))
    assert "holds a conversion with lora/x.safetensors at 1 merged into the weights; give another" in said
    assert run(*command, "--force").exit_code == 0
    assert "holds a conversion with no LoRA merged" in refused(run(*command, "--lora", f"{lora}:2"))


def test_dry_run_checks_the_lora_too(tiny: Tiny, lora: Path, tmp_path: Path) -> None:
    command = (tiny.folder, "-o", tmp_path / "out", "--dry-run", "--json", "--lora")
    done = run(*command, lora, "--lora", f"{lora}:-0.5")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["parameters"].keys() == {"text_encoder", "unet", "vae_decoder"}
    path = loras.save(tmp_path / "y.safetensors", {"lora_unet_conv_in.hada_w1_a": torch.ones(1)})
    assert f"{path} has lora_unet_conv_in.hada_w1_a, but no hada_w1_b" in refused(run(*command, path))
    assert "has no adapter called 'strong': its adapter has no name" in refused(
        run(*command, f"{lora}:strong")
    )
    done = run(*command, f"{tmp_path / 'z.safetensors'}:strong")
    assert (done.exit_code, "ends in the scale 'strong'" in done.stderr) == (2, True)
    assert "cannot be read" in refused(run(*command, tmp_path / "none.safetensors:0.5"))
    assert not (tmp_path / "out").exists()
