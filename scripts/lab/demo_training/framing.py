"""Images as Stable Diffusion XL's training sees them: scaled from other sizes, cropped, and told so.

Podell et al., "SDXL" (2023, arXiv 2307.01952), section 2.2.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from torch.nn.functional import interpolate

SIDES = 64, 80, 96, 112, 144, 160
"""Sizes of the images before they were scaled or cropped, in pixels; half of them have the scenes' own."""
_CHUNK = 50


def framed(pictures: Any, seed: int) -> tuple[Any, Any]:
    """Return images (N, S, S, 3), uint8, scaled or cropped, and their six sizes (N, 6), float32, in pixels.

    The sizes are the original's height and width, the crop's top and left, and S twice.
    """
    rng = random.Random(seed)
    blocks, sizes = [], []
    for block in pictures.split(_CHUNK):
        shown, ids = _frame(block, rng)
        blocks.append(shown)
        sizes.append(torch.tensor(ids, dtype=torch.float32).expand(len(block), -1))
    return torch.cat(blocks), torch.cat(sizes)


def _frame(block: Any, rng: random.Random) -> tuple[Any, list[int]]:
    target = block.shape[1]
    side = target if rng.random() < 0.5 else rng.choice(SIDES)
    top, left = (rng.randint(0, max(0, side - target)) for _ in "hw")
    resized = _resized(block, side)
    shown = (
        resized[:, top : top + target, left : left + target] if side > target else _resized(resized, target)
    )
    return shown, [side, side, top, left, target, target]


def _resized(block: Any, side: int) -> Any:
    if side == block.shape[1]:
        return block
    images = block.permute(0, 3, 1, 2).float()
    sized = interpolate(images, (side, side), mode="bilinear", antialias=True, align_corners=False)
    return sized.round().clamp(0, 255).byte().permute(0, 2, 3, 1)
