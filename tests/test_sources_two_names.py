"""A tensor that a file has under two names is read where both are equal, and refused, by name, where not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save_file

from msd.conversion.sources.controlnet import add_controls
from msd.conversion.sources.formats import open_checkpoint
from msd.conversion.sources.vae import replace_vae
from msd.errors import BadCheckpoint
from tests import checkpoints, single_files, tiny_autoencoders
from tests.tiny_autoencoders import SHALLOW

Read = Callable[[Path], object]
CLIP = "cond_stage_model.transformer."
WEIGHT = "encoder.layers.0.mlp.fc1.weight"
CONV = "decoder.conv_in.weight"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two-names")
    checkpoints.write(folder / "source", checkpoints.TINY)
    single_files.write(folder / "whole.safetensors", single_files.FIRST)
    taesd = tiny_autoencoders.write(folder / "taesd", **SHALLOW)
    tiny_autoencoders.write_original(folder / "taesd.safetensors", taesd, "decoder")
    return folder


def load_file(path: Path) -> dict[str, torch.Tensor]:
    """Return copies of a file's tensors: the file may be replaced."""
    return load(path.read_bytes())


def with_twin(path: Path, name: str, twin: str, out: Path, differs: bool) -> Path:
    """Write the tensors of a file to `out`, one of them under a second name too."""
    tensors = load_file(path)
    assert name in tensors
    save_file({**tensors, twin: tensors[name] + differs}, out)
    return out


def refused(read: Read, path: Path, names: tuple[str, str]) -> None:
    one, other = map(re.escape, names)
    pattern = f"{re.escape(str(path))} has both ({one} and {other}|{other} and {one}), which are one tensor"
    with pytest.raises(BadCheckpoint, match=pattern):
        read(path)


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        (f"{CLIP}text_model.{WEIGHT}", f"{CLIP}{WEIGHT}"),
        (f"{CLIP}text_model.{WEIGHT}", f"cond_stage_model.text_model.{WEIGHT}"),
        ("model.diffusion_model.out.2.weight", "out.2.weight"),
        (f"first_stage_model.{CONV}", CONV),
    ],
)
def test_single_files(name: str, twin: str, folder: Path, tmp_path: Path) -> None:
    whole = folder / "whole.safetensors"
    open_checkpoint(with_twin(whole, name, twin, tmp_path / "equal.safetensors", differs=False))
    path = with_twin(whole, name, twin, tmp_path / "other.safetensors", differs=True)
    refused(open_checkpoint, path, (name, twin))


def test_text_encoders_of_folders(folder: Path, tmp_path: Path) -> None:
    checkpoints.write(tmp_path / "source", checkpoints.TINY)
    path = tmp_path / "source" / "text_encoder" / "model.safetensors"
    name = next(each for each in load_file(path) if each.endswith(WEIGHT))
    twin = name.removeprefix("text_model.") if name.startswith("text_model.") else f"text_model.{name}"
    with_twin(path, name, twin, path, differs=False)
    open_checkpoint(tmp_path / "source")
    tensors = load_file(path)
    save_file({**tensors, twin: tensors[twin].reshape(-1)}, path)
    with pytest.raises(BadCheckpoint, match=r"source/text_encoder has both .*fc1\.weight and .*fc1\.weight"):
        open_checkpoint(tmp_path / "source")


def test_attention_of_autoencoders_by_its_old_and_its_new_name(tmp_path: Path) -> None:
    checkpoints.write(tmp_path / "source", checkpoints.SD21)
    path = tmp_path / "source" / "vae" / "diffusion_pytorch_model.safetensors"
    name = "decoder.mid_block.attentions.0.to_q.weight"
    old = name.replace("to_q", "query")
    tensors = load_file(path)
    save_file({**tensors, old: tensors[name][:, :, None, None].clone()}, path)
    open_checkpoint(tmp_path / "source")
    save_file({**tensors, old: torch.zeros_like(tensors[name])}, path)
    with pytest.raises(
        BadCheckpoint, match=r"source/vae has both .*(query|to_q)\.weight and .*weight, which"
    ):
        open_checkpoint(tmp_path / "source")


@pytest.mark.parametrize("prefix", ["vae.", "model.", "first_stage_model."])
def test_autoencoders_in_one_file(prefix: str, folder: Path, tmp_path: Path) -> None:
    checkpoint, stored = open_checkpoint(folder / "source"), tmp_path / "plain.safetensors"
    whole = load_file(folder / "whole.safetensors")
    vae = {name.removeprefix("first_stage_model."): t for name, t in whole.items() if "first_stage" in name}
    save_file(vae, stored)

    def read(path: Path) -> object:
        return replace_vae(checkpoint, [path])

    twin = f"{prefix}{CONV}"
    equal = tmp_path / "equal.safetensors"
    save_file({**vae, **{f"{prefix}{name}": t.clone() for name, t in vae.items()}}, equal)
    read(equal)
    refused(read, with_twin(stored, CONV, twin, tmp_path / "other.safetensors", differs=True), (CONV, twin))


def test_tiny_autoencoders(folder: Path, tmp_path: Path) -> None:
    checkpoint, stored = open_checkpoint(folder / "source"), folder / "taesd.safetensors"

    def read(path: Path) -> object:
        return replace_vae(checkpoint, [path])

    names = "1.weight", "taesd_decoder.1.weight"
    read(with_twin(stored, *names, tmp_path / "equal.safetensors", differs=False))
    refused(read, with_twin(stored, *names, tmp_path / "other.safetensors", differs=True), names)


def test_controlnets(folder: Path, tmp_path: Path) -> None:
    checkpoint, path = open_checkpoint(folder / "source"), tmp_path / "edges.safetensors"
    name, twin = "zero_convs.0.0.weight", "control_model.zero_convs.0.0.weight"
    save_file({name: torch.zeros(1), twin: torch.ones(1)}, path)
    refused(lambda given: add_controls(checkpoint, [(given, None)]), path, (name, twin))
