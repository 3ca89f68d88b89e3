"""How well images follow their prompts, as a CLIP model sees it.

Hessel et al., "CLIPScore" (2021, arXiv 2104.08718), with 100 for its factor of 2.5, as torchmetrics has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from msd.errors import BadCheckpoint
from msd.files import bounded
from msd.files.wording import counted
from msd.run.runtime.image import GeneratedImage

FACTOR = 100.0


def require_clip(folder: Path) -> None:
    """Raise BadCheckpoint for a folder whose config.json is not a CLIPModel's, before anything is loaded."""
    try:
        config = bounded.read_json(folder / "config.json")
    except (OSError, ValueError) as problem:
        raise _no_clip(folder, f"its config.json cannot be read ({problem})") from problem
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind != "clip":
        raise _no_clip(folder, f"model_type in its config.json is {kind!r} and should be 'clip'")


def clip_scores(
    folder: Path, columns: Sequence[Sequence[GeneratedImage]], batch: int, device: str | None = None
) -> list[list[float]]:
    """Return 100·max(cosine, 0) of each image's embedding and its prompt's, for each column of images.

    `folder` is transformers' CLIPModel with its tokenizer and its image processor, on disk; it reads `batch`
    images at once, in float32. Raises BadCheckpoint for a folder that is not one, lacks some of its weights,
    whose numbers are NaN, or has only a pickle.
    """
    from transformers import CLIPImageProcessor, CLIPModel, CLIPTokenizer

    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        model, loaded = CLIPModel.from_pretrained(
            folder,
            dtype=torch.float32,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
        tokenizer = CLIPTokenizer.from_pretrained(folder, local_files_only=True)
        processor = CLIPImageProcessor.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as problem:
        raise _no_clip(folder, problem) from problem
    if missing := sorted(loaded["missing_keys"]):  # transformers fills them with random numbers
        raise _no_clip(folder, f"its weights lack {counted(len(missing), 'tensor')}, the first {missing[0]}")
    scorer = _Scorer(model.eval().to(where), tokenizer, processor, where)
    found = [
        [score for i in range(0, len(images), batch) for score in scorer.scores(images[i : i + batch])]
        for images in columns
    ]
    if not all(math.isfinite(score) for scores in found for score in scores):
        raise _no_clip(folder, "its scores are no numbers")
    return found


def _no_clip(folder: Path, why: object) -> BadCheckpoint:
    return BadCheckpoint(f"{folder} cannot be read as a CLIPModel that transformers saved: {why}")


class _Scorer:
    """A CLIP model with what prepares its inputs."""

    def __init__(self, model: Any, tokenizer: Any, processor: Any, device: str) -> None:
        self._model, self._tokenizer, self._processor, self._device = model, tokenizer, processor, device

    def scores(self, images: Sequence[GeneratedImage]) -> list[float]:
        """Return the scores of some images."""
        length = self._model.config.text_config.max_position_embeddings
        text = self._tokenizer(
            [image.metadata["prompt"] for image in images],
            padding=True,
            truncation=True,
            max_length=length,
            return_tensors="pt",
        )
        pixels = self._processor([image.pixels for image in images], return_tensors="pt")["pixel_values"]
        with torch.inference_mode():
            found = self._model(
                input_ids=text["input_ids"].to(self._device),
                attention_mask=text["attention_mask"].to(self._device),
                pixel_values=pixels.to(self._device),
            )
        cosines = torch.nn.functional.cosine_similarity(found.image_embeds, found.text_embeds)
        return [float(FACTOR * cosine) for cosine in cosines.clamp(min=0)]
