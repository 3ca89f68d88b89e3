"""--unet: which folders and files replace a checkpoint's U-Net, what their names decide, and refusals."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file, save_file

from msd.bundle import ImageDefaults, file_facts, open_bundle
from msd.cli.convert import convert
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.formats import open_checkpoint
from msd.conversion.sources.unet import replace_unet
from msd.errors import BadCheckpoint, BadConfig
from msd.graph.ledger import ComponentPruning
from tests import checkpoints, single_files

WEIGHTS = "diffusion_pytorch_model.safetensors"
GUIDANCE = "time_embedding.cond_proj.weight"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint "source", and "other" of the same shape with its U-Net in several files."""
    folder = tmp_path_factory.mktemp("unets")
    checkpoints.write(folder / "source", checkpoints.TINY)
    checkpoints.write(folder / "other", checkpoints.TINY, seed=1)
    checkpoints.write(folder / "deep", checkpoints.VELOCITY)
    tensors = load_file(folder / "other/unet" / WEIGHTS)
    shutil.copy(folder / "other/unet" / WEIGHTS, folder / "some_lightning_8step_unet.safetensors")
    torch.save(tensors, folder / "plain.bin")
    save_file({f"unet.{name}": tensor for name, tensor in tensors.items()}, folder / "wrapped.safetensors")
    shutil.copytree(folder / "other/unet", folder / "lcm-other")
    return folder


@pytest.fixture(scope="module")
def checkpoint(folder: Path) -> Checkpoint:
    return open_checkpoint(folder / "source")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(convert, [*map(str, arguments)])


def equal(checkpoint: Checkpoint, wanted: dict[str, torch.Tensor]) -> bool:
    """Whether the U-Net's tensors are those wanted."""
    found = checkpoint.weights["unet"]
    return found.keys() == wanted.keys() and all(
        np.array_equal(tensor.load(), wanted[name].numpy()) for name, tensor in found.items()
    )


@pytest.mark.parametrize(
    "name",
    ["other", "other/unet", f"other/unet/{WEIGHTS}", "lcm-other", "plain.bin", "wrapped.safetensors"],
)
def test_a_unet_is_a_folder_or_a_file(name: str, folder: Path, checkpoint: Checkpoint) -> None:
    replaced = replace_unet(checkpoint, folder / name)
    assert equal(replaced, load_file(folder / "other/unet" / WEIGHTS))
    assert replaced.configs["unet"] == checkpoint.configs["unet"]
    assert replaced.weights["vae_decoder"] is checkpoint.weights["vae_decoder"]
    assert replaced.replaced == ("unet",)
    assert f"unet/{WEIGHTS}" not in replaced.files or name in (
        "other/unet",
        f"other/unet/{WEIGHTS}",
        "lcm-other",
    )
    assert {*replaced.weight_files["unet"]} <= {*replaced.files}


def test_the_original_layout(tmp_path: Path) -> None:
    whole = single_files.write(tmp_path / "whole.safetensors", single_files.SECOND)
    other = single_files.write(tmp_path / "other.safetensors", single_files.SECOND, seed=1)
    checkpoint = open_checkpoint(whole)
    bare = {
        name.removeprefix("model.diffusion_model."): tensor
        for name, tensor in load_file(other).items()
        if name.startswith("model.diffusion_model.")
    }
    save_file(bare, tmp_path / "bare.safetensors")
    for path in (other, tmp_path / "bare.safetensors"):
        replaced = replace_unet(checkpoint, path)
        wanted = open_checkpoint(other).weights["unet"]
        found = replaced.weights["unet"]
        assert found.keys() == wanted.keys()
        assert all(np.array_equal(found[name].load(), wanted[name].load()) for name in wanted)


def test_a_conversion_is_the_other_checkpoints_network(folder: Path, tmp_path: Path) -> None:
    """And all that the command says of it: the name tells a schedule, and the manifest has the files."""
    said = run(
        folder / "source", "--unet", folder / "some_lightning_8step_unet.safetensors", "-o", tmp_path / "a"
    )
    assert said.exit_code == 0, said.output
    assert "some_lightning_8step_unet.safetensors is SDXL-Lightning by its name" in said.stderr
    assert run(folder / "other", "-o", tmp_path / "b").exit_code == 0
    for name, of in (("unet", "b"), ("vae_decoder", "c")):
        if of == "c":
            assert run(folder / "source", "-o", tmp_path / "c").exit_code == 0
        assert file_facts(tmp_path / f"a/{name}.tflite") == file_facts(tmp_path / f"{of}/{name}.tflite")
    manifest = open_bundle(tmp_path / "a").manifest
    assert manifest.images == ImageDefaults(8, 1.0)
    assert manifest.scheduler["_class_name"] == "EulerDiscreteScheduler"
    assert "unet/some_lightning_8step_unet.safetensors" in manifest.source.files


def test_what_was_known_of_the_former_unet_is_gone(folder: Path, checkpoint: Checkpoint) -> None:
    """Its distillation, and the kind that the checkpoint's name told: the U-Net's name decides."""
    student = replace(
        checkpoint,
        images=ImageDefaults(4, 1.0),
        pruned={"unet": ComponentPruning("magnitude", "10%", 10, 1, ())},
        few_steps=replace_unet(checkpoint, folder / "lcm-other").few_steps,
    )
    assert student.few_steps is not None
    replaced = replace_unet(student, folder / "plain.bin")
    assert (replaced.images, replaced.pruned, replaced.few_steps) == (None, {}, None)


def test_shapes_tell_the_channels_and_a_guidance_scale(
    folder: Path, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    tensors = load_file(folder / "other/unet" / WEIGHTS)
    first = tensors["conv_in.weight"]
    tensors["conv_in.weight"] = torch.zeros(first.shape[0], 9, *first.shape[2:])
    tensors[GUIDANCE] = torch.zeros(first.shape[0], 20)
    save_file(tensors, tmp_path / "unet.safetensors")
    config = replace_unet(checkpoint, tmp_path / "unet.safetensors").configs["unet"]
    assert config == replace(checkpoint.configs["unet"], in_channels=9, guidance_width=20)


def test_a_unet_that_is_not_converted_is_said(folder: Path, tmp_path: Path) -> None:
    said = run(
        folder / "source", "--unet", folder / "plain.bin", "--component", "vae_decoder", "-o", tmp_path / "a"
    )
    assert "--unet changes unet, which this conversion leaves out" in said.stderr


def test_another_structure_is_refused_at_the_door(
    folder: Path, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    tensors = load_file(folder / "other/unet" / WEIGHTS)
    deep = load_file(folder / "deep/unet" / WEIGHTS)
    wide = {**tensors, "conv_out.bias": torch.zeros(5)}
    none = {"text_model.embeddings.token_embedding.weight": torch.zeros(2, 3)}
    for name, bad, message in (
        (
            "deep",
            deep,
            r"does not fit source: it is another U-Net, for one of both lacks .* and \d+ more; a config",
        ),
        ("wide", wide, r"its conv_out\.bias has the shape \[5\], and the checkpoint's \[4\]"),
        ("none", none, "is no U-Net; give a folder of diffusers' UNet2DConditionModel, or a file with one"),
    ):
        save_file(bad, tmp_path / f"{name}.safetensors")
        with pytest.raises(BadCheckpoint, match=message):
            replace_unet(checkpoint, tmp_path / f"{name}.safetensors")


def test_what_is_no_unet_is_refused(folder: Path, checkpoint: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="source/vae is no U-Net; give"):
        replace_unet(checkpoint, folder / "source/vae")
    said = run(folder / "source", "--unet", tmp_path / "nothing.safetensors", "-o", tmp_path / "out")
    assert said.exit_code == 1
    assert f"{tmp_path / 'nothing.safetensors'} does not exist" in said.stderr
    with pytest.raises(BadConfig, match="cannot replace a network of keras-cv; leave out --source"):
        replace_unet(replace(checkpoint, networks="keras-cv"), folder / "plain.bin")


@pytest.mark.parametrize(("path", "options"), [("plain.bin", "--unet or --vae"), ("lcm-other", "--unet")])
def test_one_network_alone_is_told_the_option(path: str, options: str, folder: Path, tmp_path: Path) -> None:
    said = run(folder / path, "-o", tmp_path / "out")
    assert said.exit_code == 1
    assert said.stderr.endswith(f"checkpoint and this as its {options}\n")
