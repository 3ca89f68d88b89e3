"""The vectors of a textual inversion are found in every form that programs gave their files."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch.nn import Parameter, ParameterDict

from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.diffusers import open_folder
from msd.conversion.sources.embedding import TABLE, add, parse
from msd.errors import BadCheckpoint
from tests import checkpoints
from tests.embedding_images import value_of, write_chunk, write_pixels

VECTORS = torch.randn(3, 48, generator=torch.Generator().manual_seed(4)) * 0.1
NAMED = {"string_to_token": {"*": torch.tensor(265)}, "name": "style"}
BUNDLE = "bundle_emb.{}.string_to_param.*"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("embedding") / "tiny"
    checkpoints.write(folder, checkpoints.TINY)
    return open_folder(folder)


SAVED: dict[str, tuple[Any, str]] = {
    "a tensor": (VECTORS, "mine"),
    "a parameter": (Parameter(VECTORS), "mine"),
    "a list": ([VECTORS], "mine"),
    "the original repository's": (
        {**NAMED, "string_to_param": ParameterDict({"*": Parameter(VECTORS)})},
        "style",
    ),
    "without a name": ({"string_to_param": ParameterDict({"*": Parameter(VECTORS)})}, "mine"),
    "AUTOMATIC1111's": ({**NAMED, "string_to_param": {"*": VECTORS}}, "style"),
    "in order": (OrderedDict({**NAMED, "string_to_param": OrderedDict({"*": VECTORS})}), "style"),
    "diffusers'": ({"<cat>": VECTORS}, "<cat>"),
    "parameters": (ParameterDict({"cat": Parameter(VECTORS)}), "cat"),
    "a dictionary in another": ({"<cat>": {"embedding": VECTORS, "step": 3}}, "<cat>"),
    "a state": ({"state_dict": {"weight": VECTORS}}, "mine"),
    "a table": (torch.nn.Embedding(3, 48, _weight=VECTORS.clone()).state_dict(), "mine"),
    "with numbers": ({"<cat>": VECTORS, "step": torch.tensor(3), "loss": torch.tensor(0.5)}, "<cat>"),
    "kohya's": ({"emb_params": VECTORS}, "mine"),
    "of one encoder": ({"clip_l": VECTORS}, "mine"),
}


def vectors_of(found: Checkpoint) -> np.ndarray:
    return found.weights["text_encoder"][TABLE].load()[516:]


def require_added(checkpoint: Checkpoint, path: Path, token: str, wanted: torch.Tensor = VECTORS) -> None:
    found = add(checkpoint, [(path, None)])
    np.testing.assert_array_equal(vectors_of(found), wanted.float().numpy())
    assert [tokens[0] for tokens in found.embeddings.values()] == [token]
    renamed = add(checkpoint, [(path, "<own>")])
    assert [tokens[0] for tokens in renamed.embeddings.values()] == ["<own>"]


@pytest.mark.parametrize("suffix", ["pt", "bin", "safetensors", "png"])
@pytest.mark.parametrize("name", SAVED)
def test_what_torch_saved_has_its_vectors_somewhere(
    name: str, suffix: str, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    saved, token = SAVED[name]
    torch.save(saved, tmp_path / f"mine.{suffix}", _use_new_zipfile_serialization=suffix != "bin")
    require_added(checkpoint, tmp_path / f"mine.{suffix}", token)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn])
def test_any_precision(dtype: torch.dtype, checkpoint: Checkpoint, tmp_path: Path) -> None:
    narrow = VECTORS.to(dtype)
    torch.save({"<cat>": narrow}, tmp_path / "mine.pt")
    require_added(checkpoint, tmp_path / "mine.pt", "<cat>", narrow)
    save_file({"<cat>": narrow}, tmp_path / "mine.pt")
    require_added(checkpoint, tmp_path / "mine.pt", "<cat>", narrow)


IMAGES: dict[str, Callable[[Path], Path]] = {
    "chunk": lambda folder: write_chunk(folder / "mine.png", value_of(VECTORS, "style")),
    "pixels": lambda folder: write_pixels(folder / "mine.png", value_of(VECTORS, "style")),
    "tall": lambda folder: write_pixels(folder / "mine.bin", value_of(VECTORS, "style"), 101, format="PNG"),
    "WebP": lambda folder: write_pixels(folder / "mine.webp", value_of(VECTORS, "style"), lossless=True),
    "transparent": lambda folder: with_alpha(write_pixels(folder / "mine.png", value_of(VECTORS, "style"))),
}


def with_alpha(path: Path) -> Path:
    Image.open(path).convert("RGBA").save(path)
    return path


@pytest.mark.parametrize("kind", IMAGES)
def test_an_image_holds_an_embedding(kind: str, checkpoint: Checkpoint, tmp_path: Path) -> None:
    require_added(checkpoint, IMAGES[kind](tmp_path), "style")


def test_an_embedding_beside_a_lora(checkpoint: Checkpoint, tmp_path: Path) -> None:
    path, lora = tmp_path / "mine.safetensors", {"lora_unet_conv_in.lora_up.weight": torch.ones(16, 2)}
    save_file({**lora, BUNDLE.format("cat"): VECTORS}, path)
    require_added(checkpoint, path, "cat")
    save_file({**lora, BUNDLE.format("cat"): VECTORS, BUNDLE.format("a.dog"): VECTORS + 1}, path)
    with pytest.raises(BadCheckpoint, match=r"the vectors of 2 tokens: (cat, a.dog|a.dog, cat); choose one"):
        add(checkpoint, [(path, None)])
    found = add(checkpoint, [(path, "a.dog"), (path, "cat")])
    np.testing.assert_array_equal(vectors_of(found), torch.cat([VECTORS + 1, VECTORS]).numpy())


def noise(path: Path) -> Path:
    Image.effect_noise((64, 64), 80).save(path)
    return path


def cut(path: Path) -> Path:
    write_pixels(path, value_of(VECTORS, "style"))
    Image.open(path).crop((0, 0, 20, 24)).save(path)
    return path


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a picture": (noise, "is an image without a readable textual inversion: it has no text sd-ti-embedding"),
    "black": (lambda path: Image.new("RGB", (9, 9)).save(path), "textual inversion: it is black"),
    "half": (cut, "is an image without a readable textual inversion"),
    "damaged": (
        lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n1234"),
        "is not a readable PNG or WebP image",
    ),
    "no JSON": (
        lambda path: write_chunk(path, value_of(VECTORS, "a")).write_bytes(
            path.read_bytes().replace(b"sd-ti-embedding\0", b"sd-ti-embedding\0!")
        ),
        "is not a readable PNG or WebP image",
    ),
    "ragged": (
        lambda path: write_chunk(path, {"a": {"TORCHTENSOR": [[1.0], [2.0, 3.0]]}}),
        "is an image without a readable textual inversion: setting an array element",
    ),
    "words": (
        lambda path: write_chunk(path, {"a": {"TORCHTENSOR": ["b"]}}),
        "could not convert string to float",
    ),
    "nothing": (lambda path: write_chunk(path, {"a": 3}), "is no textual inversion: it has 0 tensors (none)"),
    "SDXL": (
        lambda path: torch.save({"clip_g": VECTORS, "clip_l": VECTORS}, path),
        "is a textual inversion for Stable Diffusion XL or 3: it has clip_g",
    ),
    "SDXL, counted": (
        lambda path: torch.save({"text_encoders_0": VECTORS, "text_encoders_1": VECTORS}, path),
        "is a textual inversion for Stable Diffusion XL or 3: it has text_encoders_1",
    ),
    "a hypernetwork": (
        lambda path: torch.save({320: (torch.nn.Linear(3, 2).state_dict(),) * 2, "step": 3}, path),
        "is no textual inversion: it has 2 tensors (320.0.bias, 320.0.weight)",
    ),
    "JPEG": (
        lambda path: Image.new("RGB", (9, 9)).save(path, format="JPEG"),
        "cannot be read as weights: it is a JPEG image",
    ),
    "text": (lambda path: path.write_text("<html>"), "is a web page"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_embedding(name: str, checkpoint: Checkpoint, tmp_path: Path) -> None:
    write, said = REFUSED[name]
    path = tmp_path / "mine.png"
    write(path)
    with pytest.raises(BadCheckpoint, match=re.escape(said)) as refused:
        add(checkpoint, [(path, None)])
    assert str(path) in str(refused.value)


def test_a_folder_is_told_which_file_in_it_to_give(checkpoint: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"is a folder; give a textual inversion's file\Z"):
        add(checkpoint, [(tmp_path, None)])
    (tmp_path / "README.md").touch()
    torch.save({"<cat>": VECTORS}, tmp_path / "learned_embeds.bin")
    with pytest.raises(BadCheckpoint, match=r"is a folder; give .+ file, such as learned_embeds\.bin\Z"):
        add(checkpoint, [(tmp_path, None)])


def test_the_token_follows_the_name_of_any_file(tmp_path: Path) -> None:
    odd = tmp_path / "an:odd name"
    odd.touch()
    assert parse(f"{odd}:<cat>:2") == (odd, "<cat>:2")
    assert parse("mine.png:<cat>") == (Path("mine.png"), "<cat>")
