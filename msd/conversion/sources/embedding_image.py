"""A textual inversion in an image, as AUTOMATIC1111's web UI shares them.

The image has a text chunk `sd-ti-embedding`: JSON in base64. So that it outlives services that drop chunks,
the same JSON, deflated, is in the pixels too: each byte's lower four bits in the lower four bits of a channel
on the left of the picture, the upper four on its right, between columns of black. They are masked by the
generator x → 1664525 x + 1013904223 modulo 2^32, of which each value modulo 255 gives four bits. A tensor is
{"TORCHTENSOR": nested lists}.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from msd.errors import BadCheckpoint
from msd.files import bounded
from msd.graph.ir.weights import Weights

CHUNK, TENSOR = "sd-ti-embedding", "TORCHTENSOR"
FORMATS = ("PNG", "WEBP")
"""Pillow's names of formats that keep each bit of a pixel."""

MOST_PIXELS = 50_000_000
DEEPEST = 6
MULTIPLIER, INCREMENT, MODULUS = 1664525, 1013904223, 255
Keys = tuple[str | int, ...]
Bytes = npt.NDArray[np.uint8]


def read_image(path: Path) -> tuple[dict[Keys, Weights], dict[Keys, Any]]:
    """Return the tensors and the other values in an image, by the keys that lead to them.

    Raises BadCheckpoint for an image without an embedding, and for one that is damaged.
    """
    text, pixels = _opened(path)
    try:
        encoded = _inflated(_hidden(pixels)) if text is None else base64.b64decode(text, validate=True)
        parsed = bounded.parse_json(encoded.decode("utf-8"))
        leaves = dict(_leaves(parsed, ()))
        tensors = {keys: _tensor(path, keys, value) for keys, value in leaves.items() if _is_tensor(value)}
    except (ValueError, binascii.Error, zlib.error) as error:
        raise BadCheckpoint(f"{path} is an image without a readable textual inversion: {error}") from error
    return tensors, {keys: value for keys, value in leaves.items() if keys not in tensors}


def _opened(path: Path) -> tuple[str | None, Bytes]:
    """Return an image's text chunk, if it has one, and its pixels, (height, width, 3)."""
    from PIL import Image  # late, for commands that need no image

    try:
        with Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                raise BadCheckpoint(f"{path} has more than {MOST_PIXELS} pixels")
            text = image.info.get(CHUNK)
            pixels = np.asarray(image.convert("RGB"))
            text = getattr(image, "text", {}).get(CHUNK, text)
    except (OSError, ValueError, SyntaxError, zlib.error, Image.DecompressionBombError) as error:
        raise BadCheckpoint(
            f"{path} is not a readable PNG or WebP image with a textual inversion ({error})"
        ) from error
    return (str(text) if text is not None else None), pixels


def _hidden(pixels: Bytes) -> bytes:
    """Return the bytes in the pixels; raises ValueError where no black columns enclose a picture."""
    lit = (pixels > 0).all(axis=2)
    rows, columns = np.flatnonzero(lit.any(axis=1)), np.flatnonzero(lit.any(axis=0))
    if not rows.size:
        raise ValueError("it is black")
    low = pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] & 15
    black = np.flatnonzero(low.sum(axis=(0, 2), dtype=np.int64) == 0)
    if black.size < 2:
        raise ValueError(f"it has no text {CHUNK}, and no black columns with data beside them")
    left, right = low[:, : black[0]], low[:, black[-1] + 1 :]
    if left.shape != right.shape:
        raise ValueError("its data on the left and on the right of the picture differ in size")
    mask = _mask(left.size).reshape(left.shape)
    return ((left ^ mask) | ((right ^ mask) << 4)).tobytes()


def _mask(count: int) -> Bytes:
    """Return the generator's first `count` values, four bits each."""
    values, factor, term = np.array([INCREMENT], np.uint64), MULTIPLIER, INCREMENT
    while values.size < count:  # x → factor · x + term takes as many steps as there are values
        further = (values * np.uint64(factor) + np.uint64(term)) & np.uint64(0xFFFFFFFF)
        values = np.concatenate([values, further])
        factor, term = factor * factor % (1 << 32), (factor * term + term) % (1 << 32)
    return (values[:count] % MODULUS & 15).astype(np.uint8)


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    inflated = inflater.decompress(data, bounded.TEXT_BYTES)
    if not inflater.eof:
        raise ValueError("the data in its pixels is cut short")
    return inflated


def _leaves(value: Any, keys: Keys) -> Iterator[tuple[Keys, Any]]:
    """Yield the values that are no dictionaries, and the tensors, by the keys that lead to them."""
    if isinstance(value, dict) and TENSOR not in value and len(keys) < DEEPEST:
        for key, each in value.items():
            yield from _leaves(each, (*keys, key))
    else:
        yield keys, value


def _is_tensor(value: Any) -> bool:
    return isinstance(value, dict) and TENSOR in value


def _tensor(path: Path, keys: Keys, value: dict[str, Any]) -> Weights:
    array = np.array(value[TENSOR], np.float32)
    array.flags.writeable = False
    history = f"{path.name}:{'.'.join(map(str, keys))}"
    return Weights(shape=array.shape, dtype=array.dtype, read=lambda: array, history=history)
