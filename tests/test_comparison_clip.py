"""CLIP scores against transformers' own logits, and what is refused as a CLIP model."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from msd.errors import BadCheckpoint
from msd.run.runtime.image import GeneratedImage
from msd.train.comparison.clip_score import clip_scores, require_clip
from tests.checkpoints import TINY, write
from tests.late import transformers

SHAPE = {"hidden_size": 24, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random CLIP model; read only."""
    folder = tmp_path_factory.mktemp("models") / "clip"
    write(folder.with_name("checkpoint"), TINY)
    torch.manual_seed(4)
    ids = {"vocab_size": 517, "bos_token_id": 514, "eos_token_id": 515}
    model = transformers.CLIPModel(
        transformers.CLIPConfig(
            text_config={**SHAPE, **ids, "max_position_embeddings": 16},
            vision_config={**SHAPE, "image_size": 32, "patch_size": 8},
            projection_dim=12,
        )
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.5)
    model.save_pretrained(folder)
    size = {"height": 32, "width": 32}
    transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=size).save_pretrained(folder)
    transformers.CLIPTokenizer.from_pretrained(folder.with_name("checkpoint") / "tokenizer").save_pretrained(
        folder
    )
    return folder


def images(count: int, seed: int) -> list[GeneratedImage]:
    random = np.random.default_rng(seed)
    prompts = ["red", "a reed that is nearly red, and much too long to be read in sixteen tokens", "x"]
    return [
        GeneratedImage(
            random.integers(0, 256, (40, 56, 3)).astype(np.uint8),
            np.zeros((1, 5, 7, 4), np.float32),
            {"prompt": prompts[i % 3]},
        )
        for i in range(count)
    ]


@torch.no_grad()
def cosine(folder: Path, image: GeneratedImage) -> float:
    model = transformers.CLIPModel.from_pretrained(folder)
    tokenizer, processor = (
        transformers.CLIPTokenizer.from_pretrained(folder),
        transformers.CLIPImageProcessor.from_pretrained(folder),
    )
    text = tokenizer(image.metadata["prompt"], truncation=True, max_length=16, return_tensors="pt")
    pixels = processor(Image.fromarray(image.pixels), return_tensors="pt")
    return float(model(**text, **pixels).logits_per_image / model.logit_scale.exp())


def test_scores_are_a_hundred_times_the_cosines_that_are_positive(clip: Path) -> None:
    columns = [images(5, 0), images(2, 9)]
    found = clip_scores(clip, columns, batch=3, device="cpu")
    cosines = [[cosine(clip, image) for image in column] for column in columns]
    for scores, wanted in zip(found, cosines, strict=True):
        assert scores == pytest.approx([100 * max(0.0, each) for each in wanted], abs=1e-3)
    signs = {each > 0 for wanted in cosines for each in wanted}
    assert signs == {True, False}


def test_a_folder_that_is_no_clip_model_is_refused(clip: Path, tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="cannot be read as a CLIPModel that transformers saved"):
        clip_scores(tmp_path, [images(1, 0)], batch=1, device="cpu")


def test_a_pickle_is_refused(clip: Path, tmp_path: Path) -> None:
    for path in clip.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "model.safetensors").unlink()
    torch.save(transformers.CLIPModel.from_pretrained(clip).state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(BadCheckpoint, match="cannot be read"):
        clip_scores(tmp_path, [images(1, 0)], batch=1, device="cpu")


def test_a_model_that_lacks_weights_is_refused(clip: Path, tmp_path: Path) -> None:
    """transformers draws what is missing at random, and the scores would be of nothing."""
    folder = shutil.copytree(clip, tmp_path / "clip")
    tensors = load_file(folder / "model.safetensors")
    del tensors["text_projection.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(BadCheckpoint, match=r"its weights lack 1 tensor, the first text_projection\.weight"):
        clip_scores(folder, [images(1, 0)], batch=1, device="cpu")


def test_another_folder_is_refused_before_images_are_generated(clip: Path, tmp_path: Path) -> None:
    require_clip(clip)
    with pytest.raises(BadCheckpoint, match=r"its config\.json cannot be read"):
        require_clip(tmp_path)
    with pytest.raises(BadCheckpoint, match="is 'clip_text_model' and should be 'clip'"):
        require_clip(clip.with_name("checkpoint") / "text_encoder")


def test_scores_that_are_no_numbers_are_refused(clip: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(clip, tmp_path / "broken"))
    weights = load_file(broken / "model.safetensors")
    weights["text_projection.weight"][0, 0] = float("nan")
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(BadCheckpoint, match="its scores are no numbers"):
        clip_scores(broken, [images(2, 0)], batch=2, device="cpu")
