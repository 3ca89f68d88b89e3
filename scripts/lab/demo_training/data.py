"""The training set: drawn scenes and the token ids of their captions."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from msd.models.demo.captions import Scene, Split, caption, captions, scenes
from msd.models.demo.scenes import SIZE, Picture, draw
from msd.run.runtime.control_file import canny
from scripts.lab.demo_training.recipe import TrainingRecipe
from scripts.lab.demo_training.vocabulary import LENGTH, Vocabulary, grow

_CHUNK = 500

Job = TypeVar("Job")


@dataclass(frozen=True)
class Captioned:
    """Scenes of one split with several captions each."""

    scenes: list[Scene]
    captions: list[list[str]]


def describe(recipe: TrainingRecipe, split: Split = "train") -> Captioned:
    """Return `recipe.scenes` random scenes of a split with their captions; the recipe's seed decides all."""
    rng = random.Random(recipe.seed)
    chosen = rng.choices(scenes(split), k=recipe.scenes)
    texts = [
        [
            caption(scene, rng, rng.random() < recipe.partial_captions)
            for _ in range(recipe.captions_per_scene)
        ]
        for scene in chosen
    ]
    return Captioned(chosen, texts)


def vocabulary() -> Vocabulary:
    """Return the vocabulary of the demo grammar, grown from a fixed sample of its captions."""
    return grow(captions("train", 5_000, seed=0))


def _draw_chunk(job: tuple[int, list[Scene]]) -> Picture:
    first, chunk = job
    return np.stack([draw(scene, first + i) for i, scene in enumerate(chunk)])


def pictures(chosen: list[Scene]) -> Picture:
    """Return all scenes drawn, (N, 128, 128, 3) uint8, on every core; scene i is drawn with seed i."""
    out = np.empty((len(chosen), SIZE, SIZE, 3), np.uint8)
    jobs = [(first, chosen[first : first + _CHUNK]) for first in range(0, len(chosen), _CHUNK)]
    for (first, chunk), drawn in zip(jobs, _computed(_draw_chunk, jobs), strict=True):
        out[first : first + len(chunk)] = drawn
    return out


def edges(drawn: Picture) -> Picture:
    """Return the edges that `--from-photo` finds in images (N, H, W, 3), as (N, H, W) of 0 and 1."""
    return np.concatenate([*_computed(_edges_chunk, np.array_split(drawn, -(-len(drawn) // _CHUNK)))])


def _edges_chunk(drawn: Picture) -> Picture:
    return np.stack([edges_of(picture) for picture in drawn])


def _computed(function: Callable[[Job], Picture], jobs: Sequence[Job]) -> Iterator[Picture]:
    """Yield what a function of this module makes of each job, on every core where there are several jobs.

    Processes are started anew: one that is forked from a process with threads can hang.
    """
    if len(jobs) == 1:
        yield function(jobs[0])
        return
    processes = min(os.cpu_count() or 1, len(jobs))
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(function, jobs)


def edges_of(picture: Picture) -> Picture:
    """Return the edges of one image (H, W, 3), as uint8 (H, W) of 0 and 1."""
    pixels = picture[None].astype(np.float32) / np.float32(127.5) - np.float32(1)
    return np.asarray(canny(pixels)[0, ..., 0] > 0, np.uint8)


def token_ids(texts: list[str], tokenizer: Path) -> npt.NDArray[np.int16]:
    """Return the ids of `texts`, (N, 77), by the CLIP tokenizer stored in a folder."""
    from transformers import CLIPTokenizer

    clip = CLIPTokenizer.from_pretrained(tokenizer)
    blocks = [
        np.array(
            clip(texts[i : i + 10_000], padding="max_length", max_length=LENGTH, truncation=True)["input_ids"]
        )
        for i in range(0, len(texts), 10_000)
    ]
    return np.asarray(np.concatenate(blocks), dtype=np.int16)
