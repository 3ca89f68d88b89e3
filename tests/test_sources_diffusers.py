"""A diffusers folder opens whatever its precision, shards and age; what is wrong is said in a sentence."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from msd.conversion.sources.binding import bind
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.diffusers import open_folder
from msd.errors import BadCheckpoint
from msd.models.structure import VariableSpec
from tests import checkpoints
from tests.stable_diffusion import networks_of


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    checkpoints.write(folder, checkpoints.SHALLOW)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """Return a copy that the test may spoil."""
    return shutil.copytree(saved, tmp_path / "copy")


def edit(path: Path, **changes: Any) -> None:
    """Set some keys of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def require_same(found: Checkpoint, wanted: Checkpoint) -> None:
    """Require the same tensors and values in all components."""
    for component, weights in wanted.weights.items():
        assert found.weights[component].keys() == weights.keys()
        for name, tensor in weights.items():
            np.testing.assert_array_equal(found.weights[component][name].load(), tensor.load())


def test_a_folder_says_what_it_holds(saved: Path) -> None:
    checkpoint = open_folder(saved)
    assert checkpoint.configs["unet"].channels == (24, 40)
    assert checkpoint.configs["vae_decoder"].scaling_factor == 0.5
    assert checkpoint.configs["text_encoder"].width == 48
    assert checkpoint.scheduler["prediction_type"] == "epsilon"
    assert (
        checkpoint.tokenizers["tokenizer"]["vocab.json"]()
        == (saved / "tokenizer" / "vocab.json").read_bytes()
    )
    assert list(checkpoint.files) == [
        "model_index.json",
        "scheduler/scheduler_config.json",
        "text_encoder/config.json",
        "text_encoder/model.safetensors",
        "tokenizer/merges.txt",
        "tokenizer/tokenizer_config.json",
        "tokenizer/vocab.json",
        "unet/config.json",
        "unet/diffusion_pytorch_model.safetensors",
        "vae/config.json",
        "vae/diffusion_pytorch_model.safetensors",
    ]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_reads_as_float32(dtype: torch.dtype, tmp_path: Path) -> None:
    modules = checkpoints.write(tmp_path, checkpoints.SHALLOW, dtype)
    weights = open_folder(tmp_path).weights["unet"]
    for name, tensor in modules["unet"].state_dict().items():
        assert weights[name].dtype == np.float32
        np.testing.assert_array_equal(weights[name].load(), tensor.numpy())


@pytest.mark.parametrize("variant", [None, "fp16"])
def test_shards_are_one_checkpoint(variant: str | None, saved: Path, tmp_path: Path) -> None:
    checkpoints.write(tmp_path, checkpoints.SHALLOW, max_shard_size="100KB", variant=variant)
    shards = list((tmp_path / "unet").glob("*.safetensors"))
    assert len(shards) > 2
    checkpoint = open_folder(tmp_path)
    require_same(checkpoint, open_folder(saved))
    assert set(checkpoint.files.values()) >= set(shards)


def test_the_fp16_variant_is_read_if_it_is_all_there_is(saved: Path, folder: Path) -> None:
    for name in ("text_encoder/model", "unet/diffusion_pytorch_model", "vae/diffusion_pytorch_model"):
        (folder / f"{name}.safetensors").rename(folder / f"{name}.fp16.safetensors")
    require_same(open_folder(folder), open_folder(saved))


def test_full_precision_is_preferred(saved: Path, folder: Path) -> None:
    save_file({"wrong": torch.zeros(1)}, folder / "unet" / "diffusion_pytorch_model.fp16.safetensors")
    require_same(open_folder(folder), open_folder(saved))


def rename(path: Path, change: Callable[[str, torch.Tensor], tuple[str, torch.Tensor]]) -> None:
    """Change names and tensors of a safetensors file."""
    save_file(dict(change(name, tensor.clone()) for name, tensor in load_file(path).items()), path)


def test_older_names_of_the_text_encoder(saved: Path, folder: Path) -> None:
    path = folder / "text_encoder" / "model.safetensors"
    rename(path, lambda name, tensor: (f"text_model.{name.removeprefix('text_model.')}", tensor))
    tensors = load_file(path)
    save_file({**tensors, "text_model.embeddings.position_ids": torch.arange(77)[None]}, path)
    require_same(open_folder(folder), open_folder(saved))


@pytest.mark.parametrize("conv", [False, True])
def test_older_names_and_shapes_of_the_autoencoder(conv: bool, tmp_path: Path) -> None:
    checkpoints.write(tmp_path / "new", checkpoints.SD21)
    shutil.copytree(tmp_path / "new", tmp_path / "old")
    old = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}

    def age(name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
        for new, before in old.items():
            if f"attentions.0.{new}." in name:
                tensor = tensor[:, :, None, None] if conv and name.endswith("weight") else tensor
                return name.replace(new, before), tensor
        return name, tensor

    rename(tmp_path / "old" / "vae" / "diffusion_pytorch_model.safetensors", age)
    found = open_folder(tmp_path / "old")
    require_same(found, open_folder(tmp_path / "new"))
    assert not any(name.startswith(("encoder.", "quant_conv.")) for name in found.weights["vae_decoder"])


def test_every_variable_of_every_network_is_bound(saved: Path) -> None:
    c = open_folder(saved)
    for component, network in networks_of(c).items():
        variables = {v.path: VariableSpec(v.path, tuple(v.shape)) for v in network.build().variables}
        binding = bind(component, variables, c.weights[component])
        assert binding.unexpected == ()
        assert binding.weights.keys() == variables.keys()


def refuse(folder: Path, message: str) -> None:
    with pytest.raises(BadCheckpoint, match=re.escape(message)):
        open_folder(folder)


def test_a_file_instead_of_a_folder(tmp_path: Path) -> None:
    refuse(tmp_path / "none", "none is not a folder; a folder with a model_index.json was expected")


@pytest.mark.parametrize(
    "name",
    [
        "model_index.json",
        "unet/config.json",
        "vae/config.json",
        "text_encoder/config.json",
        "scheduler/scheduler_config.json",
    ],
)
def test_a_missing_or_broken_configuration(name: str, folder: Path) -> None:
    (folder / name).write_text("[1]")
    refuse(folder, f"{name} is not a JSON object")
    (folder / name).write_text("{")
    refuse(folder, f"{name} is not JSON")
    (folder / name).write_bytes(b"\xff\xfe{")
    refuse(folder, f"{name} is not JSON")
    (folder / name).unlink()
    refuse(folder, f"has no readable {name} (No such file")


def test_another_pipeline_is_refused(folder: Path) -> None:
    edit(folder / "model_index.json", _class_name="StableDiffusion3Pipeline")
    refuse(folder, "says the pipeline is 'StableDiffusion3Pipeline', and only StableDiffusionPipeline,")


@pytest.mark.parametrize("component", ["unet", "vae", "text_encoder"])
def test_missing_weights_are_refused(component: str, folder: Path) -> None:
    (file,) = (folder / component).glob("*.safetensors")
    file.unlink()
    refuse(folder, f"{component} has no weights; {file.name} was expected")
    (folder / component / "flax_model.msgpack").touch()
    refuse(folder, f"{file.name} was expected, and it holds weights of Flax; give")
    (folder / component / "pytorch_model.bin").write_bytes(b"BC\xc0\xde")
    refuse(folder, "pytorch_model.bin is not a readable torch checkpoint: it is not a complete zip file")


def test_a_missing_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer" / "merges.txt").unlink()
    refuse(folder, "tokenizer has neither vocab.json and merges.txt nor tokenizer.json")
    (folder / "tokenizer" / "tokenizer.json").touch()
    assert "tokenizer.json" in open_folder(folder).tokenizers["tokenizer"]


def test_a_tokenizer_of_gigabytes_takes_no_memory(folder: Path) -> None:
    """It was read as a whole before its bounds were checked."""
    path = folder / "tokenizer/vocab.json"
    os.truncate(path, 8 << 30)
    with pytest.raises(BadCheckpoint, match=r"vocab\.json cannot be read: it is longer than 33554432 bytes"):
        open_folder(folder).tokenizers["tokenizer"]["vocab.json"]()


def test_a_mask_of_the_padding_is_refused(folder: Path) -> None:
    """Diffusers' Stable Diffusion gives such an encoder one, so that its context is another."""
    edit(folder / "text_encoder" / "config.json", use_attention_mask=False)
    open_folder(folder)
    edit(folder / "text_encoder" / "config.json", use_attention_mask=True)
    refuse(folder, "says use_attention_mask = True, but only False is supported")


def test_components_that_do_not_fit(folder: Path) -> None:
    edit(folder / "vae" / "config.json", latent_channels=8)
    refuse(folder, "says out_channels = 4, but vae/config.json says latent_channels = 8; they must be equal")
    edit(folder / "unet" / "config.json", cross_attention_dim=64)
    refuse(folder, "says cross_attention_dim = 64, but text_encoder/config.json says hidden_size = 48")


@pytest.mark.parametrize(
    ("placed", "message"),
    [
        (None, "has no weight_map"),
        ({"a": "../vae/diffusion_pytorch_model.safetensors"}, "has no weight_map"),
        ({"a": 3}, "has no weight_map"),
        ({"a": "shard.safetensors"}, "shard.safetensors is not a readable safetensors file"),
        ({"a": "real.safetensors"}, "says that a is in real.safetensors, but it is not"),
    ],
)
def test_bad_shards_are_refused(placed: Any, message: str, folder: Path) -> None:
    unet = folder / "unet"
    (unet / "diffusion_pytorch_model.safetensors").rename(unet / "real.safetensors")
    index = unet / "diffusion_pytorch_model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": placed}))
    refuse(folder, message)


STEMS = {"text_encoder": "model", "unet": "diffusion_pytorch_model", "vae": "diffusion_pytorch_model"}


def as_bin(folder: Path, component: str, name: str | None = None, **options: Any) -> None:
    """Save a component's weights as diffusers did before it wrote safetensors."""
    (file,) = (folder / component).glob("*.safetensors")
    name = name or {"model": "pytorch_model.bin"}.get(STEMS[component], "diffusion_pytorch_model.bin")
    tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}
    file.unlink()
    torch.save(tensors, file.with_name(name), **options)


@pytest.mark.parametrize("component", STEMS)
@pytest.mark.parametrize("zipped", [True, False])
def test_weights_of_torch_save(component: str, zipped: bool, saved: Path, folder: Path) -> None:
    as_bin(folder, component, _use_new_zipfile_serialization=zipped)
    found = open_folder(folder)
    require_same(found, open_folder(saved))
    assert not found.remarks


@pytest.mark.parametrize("component", STEMS)
@pytest.mark.parametrize("name", ["{}.safetensors", "{}.bf16.safetensors", "weights.bin"])
def test_what_a_name_ends_in_decides_nothing(component: str, name: str, saved: Path, folder: Path) -> None:
    as_bin(folder, component, name.format(STEMS[component]))
    require_same(open_folder(folder), open_folder(saved))


@pytest.mark.parametrize("variant", ["bf16", "non_ema", "fp16-v2", "my-own"])
def test_any_variant_is_read_if_it_is_all_there_is(variant: str, saved: Path, folder: Path) -> None:
    for component, stem in STEMS.items():
        file = folder / component / f"{stem}.safetensors"
        file.rename(file.with_name(f"{stem}.{variant}.safetensors"))
    found = open_folder(folder)
    require_same(found, open_folder(saved))
    assert not found.remarks


def test_of_several_variants_the_more_precise_is_read_and_said(saved: Path, folder: Path) -> None:
    unet = folder / "unet"
    whole = unet / "diffusion_pytorch_model.safetensors"
    for variant in ("non_ema", "bf16", "my-own"):
        save_file({"wrong": torch.zeros(1)}, unet / f"diffusion_pytorch_model.{variant}.safetensors")
    whole.rename(unet / "diffusion_pytorch_model.fp16.safetensors")
    found = open_folder(folder)
    require_same(found, open_folder(saved))
    assert found.remarks == (
        f"{unet} holds several variants: diffusion_pytorch_model.fp16.safetensors is read, and"
        " diffusion_pytorch_model.bf16.safetensors, diffusion_pytorch_model.my-own.safetensors,"
        " diffusion_pytorch_model.non_ema.safetensors is not",
    )


def test_full_precision_of_torch_is_preferred_to_a_variant(saved: Path, folder: Path) -> None:
    as_bin(folder, "vae")
    save_file({"wrong": torch.zeros(1)}, folder / "vae" / "diffusion_pytorch_model.fp16.safetensors")
    require_same(open_folder(folder), open_folder(saved))


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("suffix", ["bin", "fp16.bin", "safetensors"])
def test_shards_of_any_kind(suffix: str, indexed: bool, saved: Path, folder: Path) -> None:
    text, whole = folder / "text_encoder", folder / "text_encoder" / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(whole).items()}
    variant, _, kind = suffix.rpartition(".")
    weight_map = {}
    for number in range(3):
        part = {name: tensors[name] for name in sorted(tensors)[number::3]}
        name = f"pytorch_model{'.' if variant else ''}{variant}-{number + 1:05}-of-00003.{kind}"
        (save_file if kind == "safetensors" else torch.save)(part, text / name)
        weight_map |= dict.fromkeys(part, name)
    whole.unlink()
    if indexed:
        end = f".index.{variant}.json" if variant else ".index.json"
        (text / f"pytorch_model.{kind}{end}").write_text(json.dumps({"weight_map": weight_map}))
    require_same(open_folder(folder), open_folder(saved))
    (text / name).unlink()
    message = "it cannot be read (No such file" if indexed else "but only 2 of 3 such shards"
    refuse(folder, message)


def test_a_tensor_in_two_shards_is_refused(folder: Path) -> None:
    """diffusers takes the last one, whatever the index says."""
    unet = folder / "unet"
    whole = unet / "diffusion_pytorch_model.safetensors"
    tensors = load_file(whole)
    whole.unlink()
    first, second = (f"diffusion_pytorch_model-0000{n}-of-00002.safetensors" for n in (1, 2))
    save_file(tensors, unet / first)
    save_file({"conv_in.bias": tensors["conv_in.bias"] + 1}, unet / second)
    index = {"weight_map": {**dict.fromkeys(tensors, first), "conv_in.bias": second}}
    (unet / f"{whole.name}.index.json").write_text(json.dumps(index))
    refuse(folder, f"says that conv_in.bias is in {second}, but {first} has one too")


@pytest.mark.parametrize("other", ["{}.safetensors", "{}.bin", "{}-00001-of-00001.safetensors"])
@pytest.mark.parametrize("component", STEMS)
def test_weights_named_as_another_library_s_are_not_the_component_s(
    component: str, other: str, saved: Path, folder: Path
) -> None:
    """diffusers reads the U-Net and the autoencoder, transformers the text encoder, each by its own name."""
    foreign = {"model": "diffusion_pytorch_model"}.get(STEMS[component], "model")
    save_file({"wrong": torch.zeros(1)}, folder / component / other.format(foreign))
    require_same(open_folder(folder), open_folder(saved))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("component", STEMS)
def test_any_precision_in_either_format(dtype: torch.dtype, component: str, folder: Path) -> None:
    (file,) = (folder / component).glob("*.safetensors")
    narrow = {name: tensor.to(dtype) for name, tensor in load_file(file).items()}
    file.unlink()
    save_file({name: tensor.float() for name, tensor in narrow.items()}, file)
    for suffix, write in ((".safetensors", save_file), (".bin", torch.save)):
        other = shutil.copytree(folder, folder.parent / suffix)
        (other / component / file.name).unlink()
        write(narrow, other / component / f"{file.stem}{suffix}")
        require_same(open_folder(other), open_folder(folder))


def test_names_that_training_in_parallel_gives(saved: Path, folder: Path) -> None:
    file = folder / "unet" / "diffusion_pytorch_model.safetensors"
    rename(file, lambda name, tensor: (f"module._orig_mod.{name}", tensor))
    require_same(open_folder(folder), open_folder(saved))


def test_weights_of_no_known_name(folder: Path) -> None:
    file = folder / "vae" / "diffusion_pytorch_model.safetensors"
    shutil.copy(file, file.with_name("a.safetensors"))
    file.rename(file.with_name("b.safetensors"))
    refuse(folder, "vae holds a.safetensors, b.safetensors; one of them should be called diffusion_pytorch")


def test_a_folder_may_lack_an_autoencoder_that_is_given(saved: Path, folder: Path) -> None:
    (folder / "vae" / "diffusion_pytorch_model.safetensors").unlink()
    refuse(folder, "vae has no weights")
    found = open_folder(folder, vae_is_given=True)
    assert {*found.weights} == {*found.configs} == {"text_encoder", "unet"}
    shutil.rmtree(folder / "vae")
    assert {*open_folder(folder, vae_is_given=True).weights} == {"text_encoder", "unet"}
    assert {*open_folder(saved, vae_is_given=True).weights} == {*open_folder(saved).weights}
