"""The attentions and norms of Stable Diffusion's U-Nets at 64 x 64 latents, and how often each is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

CHANNELS = (320, 640, 1280, 1280)
PIXELS = (4096, 1024, 256, 64)
TRANSFORMERS = (5, 5, 5, 1)
"""Transformer blocks at each resolution: two down, three up; the last in the middle."""
HEAD_SIZES = {"SD 2.1": (64, 64, 64, 64), "SD 1.5": (40, 80, 160, 160)}
PROMPT, LAYER_NORMS = 77, 3


@dataclass(frozen=True)
class Case:
    """An attention of `queries` x `keys`, and how often an evaluation of `model` has it."""

    model: str
    heads: int
    queries: int
    keys: int
    size: int
    count: int

    @property
    def name(self) -> str:
        """The model and the sizes."""
        return (
            f"{self.model:7} {self.heads:2} x {self.queries:4} x {self.keys:4} x {self.size:3}, {self.count}"
        )


def attention_cases() -> Iterator[Case]:
    """Yield the attentions of both U-Nets and of the decoder."""
    for model, sizes in HEAD_SIZES.items():
        for size, channels, pixels, count in zip(sizes, CHANNELS, PIXELS, TRANSFORMERS, strict=True):
            for keys in (pixels, PROMPT):
                yield Case(model, channels // size, pixels, keys, size=size, count=count)
    yield Case("decoder", 1, 4096, 4096, size=512, count=1)


def norm_cases() -> dict[tuple[str, int, int], int]:
    """Return how often a U-Net has each norm: by kind, pixels and channels."""
    counts: dict[tuple[str, int, int], int] = {}

    def add(kind: str, level: int, channels: int, count: int = 1) -> None:
        key = (kind, PIXELS[level], channels)
        counts[key] = counts.get(key, 0) + count

    before = (320, *CHANNELS[:-1])
    for level, channels in enumerate(CHANNELS):
        for inputs in (before[level], channels):
            add("group", level, inputs)
            add("group", level, channels)
        above = (CHANNELS[min(level + 1, 3)], channels, channels)
        skips = {0: (320, 320, 320), 1: (640, 640, 320), 2: (1280, 1280, 640), 3: (1280,) * 3}[level]
        for inputs, skip in zip(above, skips, strict=True):
            add("group", level, inputs + skip)
            add("group", level, channels)
        add("group", level, channels, TRANSFORMERS[level])
        add("layer", level, channels, LAYER_NORMS * TRANSFORMERS[level])
    add("group", 3, 1280, 4)
    add("group", 0, 320)
    return counts
