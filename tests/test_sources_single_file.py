"""A single file opens to what diffusers makes of it: the same tensors, and the public configuration."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from msd.conversion.sources import embedding
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.clip_skip import skip_layers
from msd.conversion.sources.compvis.ema import dotted
from msd.conversion.sources.formats import open_checkpoint
from msd.conversion.sources.single_file import open_single_file
from msd.errors import BadCheckpoint
from msd.models.config import TextEncoderConfig, UNetConfig
from msd.models.vae_config import VaeDecoderConfig, VaeEncoderConfig
from scripts import compvis_names
from scripts.compvis_names import CompVisTensor
from scripts.make_random_checkpoint import (
    MODELS,
    Random,
    read_config,
    shapes,
    single_file_tensors,
    write_diffusers,
)
from tests import single_files
from tests.checkpoints import Config
from tests.late import diffusers, transformers

CONFIGS = {"first": single_files.FIRST, "second": single_files.SECOND, "inpainting": single_files.INPAINTING}
Tensors = dict[str, torch.Tensor]


@cache
def parts(name: str) -> list[CompVisTensor]:
    """Return the tensors of a file by their authors' names."""
    return single_file_tensors(CONFIGS[name])


@pytest.fixture(scope="module", params=CONFIGS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Config]:
    folder = tmp_path_factory.mktemp("single")
    return single_files.write(folder / "one.safetensors", CONFIGS[request.param]), CONFIGS[request.param]


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Tensors:
    """The tensors of a Stable Diffusion 2.x."""
    path = tmp_path_factory.mktemp("second") / "one.safetensors"
    return load_file(single_files.write(path, single_files.SECOND))


ENCODER = ("encoder.", "quant_conv.")


def configurations(config: Config) -> dict[str, Any]:
    return {
        "text_encoder": TextEncoderConfig.from_diffusers(config["text_encoder"], "text_encoder"),
        "vae_encoder": VaeEncoderConfig.from_diffusers(config["vae"], "vae"),
        "unet": UNetConfig.from_diffusers(config["unet"], "unet"),
        "vae_decoder": VaeDecoderConfig.from_diffusers(config["vae"], "vae"),
    }


def by_diffusers(tensors: Tensors, config: Config) -> dict[str, Tensors]:
    """Return what diffusers' own functions make of a single file."""
    from diffusers.loaders.single_file_utils import (
        convert_ldm_clip_checkpoint,
        convert_ldm_unet_checkpoint,
        convert_ldm_vae_checkpoint,
        convert_open_clip_checkpoint,
    )

    with torch.device("meta"):
        unet, vae = diffusers.UNet2DConditionModel(**config["unet"]), diffusers.AutoencoderKL(**config["vae"])
        text = transformers.CLIPTextModel(transformers.CLIPTextConfig(**config["text_encoder"]))
    if any(name.startswith("cond_stage_model.model.") for name in tensors):
        encoder = convert_open_clip_checkpoint(text, dict(tensors))
    else:
        encoder = convert_ldm_clip_checkpoint(dict(tensors))
    autoencoder = convert_ldm_vae_checkpoint(dict(tensors), dict(vae.config))
    return {
        "text_encoder": {name.removeprefix("text_model."): t for name, t in encoder.items()},
        "unet": convert_ldm_unet_checkpoint(dict(tensors), dict(unet.config)),
        "vae_encoder": {n: t for n, t in autoencoder.items() if n.startswith(ENCODER)},
        "vae_decoder": {n: t for n, t in autoencoder.items() if not n.startswith(ENCODER)},
    }


def require_same(found: Checkpoint, wanted: dict[str, Any]) -> None:
    """Require the tensors and values that are wanted in each component; `wanted` has arrays or tensors."""
    for component, tensors in wanted.items():
        assert found.weights[component].keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert found.weights[component][name].shape == tuple(tensor.shape)
            np.testing.assert_array_equal(found.weights[component][name].load(), np.asarray(tensor))


def test_the_tensors_are_those_that_diffusers_makes(written: tuple[Path, Config]) -> None:
    path, config = written
    wanted = by_diffusers(load_file(path), config)
    wanted["text_encoder"].pop("text_projection.weight", None)
    require_same(open_single_file(path), wanted)


def test_it_is_the_same_as_a_folder_in_diffusers_layout(written: tuple[Path, Config], tmp_path: Path) -> None:
    path, config = written
    write_diffusers(tmp_path / "folder", config, Random(0, "float32"))
    folder, single = open_checkpoint(tmp_path / "folder"), open_checkpoint(path)
    for component, weights in single.weights.items():
        assert weights.keys() <= folder.weights[component].keys()
        for name, tensor in weights.items():
            np.testing.assert_array_equal(tensor.load(), folder.weights[component][name].load())
    assert configurations(config) == single.configs == folder.configs
    for name, read in folder.tokenizers["tokenizer"].items():
        assert single.tokenizers["tokenizer"][name]() == read()
    vectors = np.ones((2, single.configs["text_encoder"].width), np.float32)
    save_file({"<cat>": torch.from_numpy(vectors)}, tmp_path / "cat.safetensors")
    grown = [
        embedding.add(skip_layers(each, 1), [(tmp_path / "cat.safetensors", None)])
        for each in (folder, single)
    ]
    assert grown[0].configs["text_encoder"] == grown[1].configs["text_encoder"]
    one, other = (each.weights["text_encoder"][embedding.TABLE].load() for each in grown)
    assert np.array_equal(one, other)
    assert (other[-2:] == vectors).all()


@pytest.mark.parametrize("model", sorted(path.stem for path in MODELS.glob("*.toml")))
def test_the_public_configurations_are_recognised(model: str, tmp_path: Path) -> None:
    config = read_config(model)
    path = tmp_path / "full.safetensors"
    write_sparse(path, single_file_tensors(config), config["scheduler"]["prediction_type"])
    found = open_checkpoint(path)
    assert found.configs == configurations(config)
    assert (found.kind, found.name, found.files) == ("single file", "full", {path.name: path})
    same = (
        "beta_start",
        "beta_end",
        "beta_schedule",
        "num_train_timesteps",
        "prediction_type",
        "steps_offset",
    )
    assert {key: found.scheduler[key] for key in same} == {key: config["scheduler"][key] for key in same}
    for component, module in meta_modules(config).items():
        wanted = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
        if component.startswith("vae"):
            half = component == "vae_encoder"
            wanted = {n: s for n, s in wanted.items() if n.startswith(ENCODER) == half}
        assert {name: tensor.shape for name, tensor in found.weights[component].items()} == {
            name.removeprefix("text_model."): shape for name, shape in wanted.items()
        }


def meta_modules(config: Config) -> dict[str, torch.nn.Module]:
    with torch.device("meta"):
        return {
            "text_encoder": transformers.CLIPTextModel(transformers.CLIPTextConfig(**config["text_encoder"])),
            "unet": diffusers.UNet2DConditionModel(**config["unet"]),
            "vae_encoder": diffusers.AutoencoderKL(**config["vae"]),
            "vae_decoder": diffusers.AutoencoderKL(**config["vae"]),
        }


def write_sparse(path: Path, tensors: list[CompVisTensor], prediction_type: str) -> None:
    """Write a file whose header is right and whose tensors are a hole."""
    header: dict[str, Any] = {"__metadata__": {"modelspec.prediction_type": prediction_type}}
    at = 0
    for tensor in tensors:
        end = at + 2 * math.prod(tensor.shape)
        header[tensor.name], at = {"dtype": "F16", "shape": tensor.shape, "data_offsets": [at, end]}, end
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + at)


CHANGES = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.sampled_from(["drop", "rename", "double"]) | st.lists(st.integers(0, 70), max_size=5).map(tuple),
        st.integers(0, 99),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=100)
@given(changes=CHANGES, config=st.sampled_from(list(CONFIGS)))
def test_a_header_that_lies_is_refused_or_read(
    changes: list[Any], config: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tensors = list(parts(config))
    for place, change, number in changes:
        index = int(place * len(tensors))
        tensor = tensors[index]
        renamed = re.sub(r"\d+", str(number), tensor.name, count=1)
        if change == "drop":
            del tensors[index]
        elif change == "double":
            tensors.append(replace(tensor, name=renamed))
        else:
            tensors[index] = replace(tensor, **{"name": renamed} if change == "rename" else {"shape": change})
    path = tmp_path_factory.getbasetemp() / "lies.safetensors"
    write_sparse(path, list({tensor.name: tensor for tensor in tensors}.values()), "epsilon")
    try:
        found = open_checkpoint(path)
    except BadCheckpoint:
        return
    assert found.configs["unet"].context_width == found.configs["text_encoder"].width


def save(tmp_path: Path, tensors: Tensors, **metadata: str) -> Path:
    """Write tensors as a file of the test's own."""
    path = tmp_path / "own.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata or None)
    return path


def test_nothing_but_headers_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse.safetensors"
    write_sparse(path, single_file_tensors(single_files.FIRST), "epsilon")
    assert path.stat().st_blocks * 512 < path.stat().st_size / 10
    weights = open_checkpoint(path).weights["unet"]["conv_in.weight"]
    assert not weights.load().any()


def test_clip_without_the_words_text_model(tmp_path: Path) -> None:
    path = single_files.write(tmp_path / "one.safetensors", single_files.FIRST)
    wanted = open_checkpoint(path)
    short = {n.replace(".text_model.", "."): t for n, t in load_file(path).items()}
    short["cond_stage_model.transformer.embeddings.position_ids"] = torch.arange(77)[None]
    found = open_checkpoint(save(tmp_path, short))
    assert found.configs["text_encoder"] == wanted.configs["text_encoder"]
    assert found.weights["text_encoder"].keys() == wanted.weights["text_encoder"].keys()


def test_a_second_whose_text_encoder_has_the_names_of_transformers(tmp_path: Path) -> None:
    config = read_config("sd21")
    others = [t for t in single_file_tensors(config) if t.component != "text_encoder"]
    path = tmp_path / "one.safetensors"
    write_sparse(path, [*others, *compvis_names.clip(shapes(config)["text_encoder"])], "v")
    found = open_checkpoint(path)
    assert found.configs == configurations(config)


def test_openclip_whose_unused_layer_was_left_out(second: Tensors, tmp_path: Path) -> None:
    left = {name: t for name, t in second.items() if ".resblocks.23." not in name}
    assert len(left) == len(second) - 12
    assert open_checkpoint(save(tmp_path, left)).configs["text_encoder"].layers == 23


def test_half_precision_and_linear_attention_of_the_vae(second: Tensors, tmp_path: Path) -> None:
    half = {name: t.half() for name, t in second.items()}
    name = "first_stage_model.decoder.mid.attn_1.q.weight"
    half[name] = half[name][:, :, 0, 0]
    found = open_checkpoint(save(tmp_path, half)).weights["vae_decoder"]
    weights = found["decoder.mid_block.attentions.0.to_q.weight"].load()
    assert weights.dtype == np.float32
    np.testing.assert_array_equal(weights, half[name].float().numpy())


def without_dots(name: str) -> str:
    return "model_ema.diffusion_model" + name.removeprefix("model.diffusion_model.").replace(".", "")


def test_averaged_weights_count_where_there_are_no_others(second: Tensors, tmp_path: Path) -> None:
    plain = {name: t for name, t in second.items() if name.startswith("model.diffusion_model.")}
    averaged = {without_dots(name): t + 1 for name, t in plain.items()}
    averaged["model_ema.decay"] = torch.ones(1)
    rest = {name: t for name, t in second.items() if name not in plain}
    for every, added in (({**second, **averaged}, 0), ({**rest, **averaged}, 1)):
        found = open_checkpoint(save(tmp_path, every)).weights["unet"]
        wanted = {name: t + added for name, t in by_diffusers(second, single_files.SECOND)["unet"].items()}
        assert found.keys() == wanted.keys()
        for name, tensor in wanted.items():
            np.testing.assert_array_equal(found[name].load(), tensor)


@pytest.mark.parametrize("model", ["sd15", "sd21"])
def test_every_name_gets_its_dots_back(model: str) -> None:
    names = [t.name for t in single_file_tensors(read_config(model)) if t.component == "unet"]
    assert len(names) == 686
    for name in names:
        assert dotted(without_dots(name).removeprefix("model_ema.diffusion_model")) == name.removeprefix(
            "model.diffusion_model."
        )
    assert dotted("label_emb02bias") == "label_emb.0.2.bias"
    for other in ("input_blocks11unknownweight", "decay"):
        assert dotted(other) == other
