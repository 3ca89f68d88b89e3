"""What other programs and web pages give is refused, and the sentence says what to give instead."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from msd.conversion.sources.controlnet import _opened
from msd.conversion.sources.formats import open_checkpoint
from msd.errors import BadCheckpoint
from msd.models.families import control
from tests.checkpoints import TINY, write

INSTEAD = "; give the checkpoint of PyTorch that they were made from"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "sd", TINY)
    return tmp_path / "sd"


def refusal(path: Path) -> str:
    with pytest.raises(BadCheckpoint) as refused:
        open_checkpoint(path)
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("model.onnx", "ONNX networks"),
        ("openvino_model.xml", "OpenVINO's networks"),
        ("flax_model.msgpack", "weights of Flax"),
        ("model-q4_0.gguf", "GGUF files, whose weights are quantised"),
        ("text_encoder.mnn", "MNN's networks"),
        ("tf_model.h5", "weights of TensorFlow"),
    ],
)
def test_a_component_of_another_program(folder: Path, name: str, what: str) -> None:
    for weights in (folder / "text_encoder").glob("*.safetensors"):
        weights.rename(weights.with_name(name))
    assert refusal(folder).endswith(f"model.safetensors was expected, and it holds {what}{INSTEAD}")


@pytest.mark.parametrize(
    ("pipeline", "what"),
    [
        ("OnnxStableDiffusionPipeline", "ONNX networks"),
        ("ORTStableDiffusionXLPipeline", "ONNX networks"),
        ("OVStableDiffusionPipeline", "OpenVINO's networks"),
        ("FlaxStableDiffusionPipeline", "weights of Flax"),
    ],
)
def test_a_pipeline_of_another_library(folder: Path, pipeline: str, what: str) -> None:
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps(index | {"_class_name": pipeline}))
    assert refusal(folder).endswith(f"says the pipeline is '{pipeline}', which runs {what}{INSTEAD}")


def test_another_pipeline_of_diffusers_is_told_which_are_supported(folder: Path) -> None:
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps(index | {"_class_name": "StableCascadePipeline"}))
    assert "'StableCascadePipeline', and only StableDiffusionPipeline, " in refusal(folder)


def test_a_folder_of_core_ml(tmp_path: Path) -> None:
    (tmp_path / "Unet.mlmodelc").mkdir()
    (tmp_path / "merges.txt").touch()
    assert refusal(tmp_path).endswith(f"; it holds Core ML's networks{INSTEAD}")


def test_the_cache_of_hugging_face(folder: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "models--me--tiny/snapshots/0123abc"
    shutil.copytree(folder, snapshot)
    said = refusal(tmp_path / "models--me--tiny")
    assert said.endswith(f"; snapshots/0123abc in it has one: give {snapshot}")


def test_the_folder_above_a_checkpoint(folder: Path) -> None:
    assert refusal(folder.parent).endswith(f"; sd in it has one: give {folder}")


def test_the_index_instead_of_its_folder(folder: Path) -> None:
    index = folder / "model_index.json"
    assert refusal(index) == f"{index} describes a checkpoint; give its folder, {folder}"


def test_an_archive_of_a_checkpoint(folder: Path, tmp_path: Path) -> None:
    archive = Path(shutil.make_archive(str(tmp_path / "sd"), "zip", folder))
    assert refusal(archive).endswith("torch wrote nothing in this zip file; unpack it")


@pytest.mark.parametrize(
    ("address", "remedy"),
    [
        ("https://huggingface.co/someone/a-model", "give someone/a-model, the id on Hugging Face"),
        ("https://hf.co/someone/a-model", "give someone/a-model, the id on Hugging Face"),
        ("https://huggingface.co/a/b/resolve/main/c.safetensors", "download the file and give its path"),
        ("http://example.org/model.ckpt", "download the file and give its path"),
    ],
)
def test_a_web_address(address: str, remedy: str) -> None:
    assert refusal(Path(address)).endswith(f" does not exist; it is a web address; {remedy}")
    with pytest.raises(BadCheckpoint, match=f"it is a web address; {remedy}"):
        _opened(Path(address), control.CONTROLNET.part)


def test_a_single_network_is_still_told_to_be_one(tmp_path: Path) -> None:
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    assert refusal(tmp_path).endswith("it holds model.safetensors: give that file")
