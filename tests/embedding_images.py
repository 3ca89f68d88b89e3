"""Images with a textual inversion, in a text chunk or in pixels, as AUTOMATIC1111's web UI has them."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo


def value_of(vectors: torch.Tensor, name: str) -> dict[str, Any]:
    """Return what such an image holds."""
    tensor = {"TORCHTENSOR": vectors.tolist()}
    return {"string_to_token": {"*": 265}, "string_to_param": {"*": tensor}, "name": name, "step": 7}


def write_chunk(path: Path, value: Any) -> Path:
    """Write an image with `value` in its text chunk."""
    info = PngInfo()
    info.add_text("sd-ti-embedding", base64.b64encode(json.dumps(value).encode()).decode())
    Image.new("RGB", (8, 8), (200, 100, 50)).save(path, pnginfo=info)
    return path


def write_pixels(path: Path, value: Any, height: int = 24, **options: Any) -> Path:
    """Write an image with `value` in its pixels."""
    data = np.frombuffer(zlib.compress(json.dumps(value).encode(), 9), np.uint8)
    sides = [_side(nibbles, height) for nibbles in (data & 15, data >> 4)]
    black = np.zeros((height, 1, 3), np.uint8)
    picture = np.full((height, 8, 3), 90, np.uint8)
    Image.fromarray(np.concatenate([sides[0], black, picture, black, sides[1]], 1)).save(path, **options)
    return path


def _side(nibbles: np.ndarray, height: int) -> np.ndarray:
    """Return four bits a channel, masked, with bits above them that no black pixel has."""
    columns = -(-nibbles.size // (3 * height))
    block = np.resize(nibbles, (height, columns, 3))
    state, mask = 0, []
    for _ in range(block.size):
        state = (1664525 * state + 1013904223) % (1 << 32)
        mask.append(state % 255 & 15)
    return block ^ np.array(mask, np.uint8).reshape(block.shape) | 0x90
