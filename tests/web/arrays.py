"""Arrays of numbers between a test and the modules that Node.js runs."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

OPENING = """
const arrayOf = (text, Kind) => new Kind(Uint8Array.from(Buffer.from(text, 'base64')).buffer);
const floats = (text) => arrayOf(text, Float32Array);
const bytes = (text) => arrayOf(text, Uint8ClampedArray);
const sent = (values) => Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('base64');
"""
"""JavaScript that reads what `sent` wrote, and writes what `floats` and `levels` read."""


def sent(values: npt.NDArray[Any]) -> str:
    """Return float32 numbers, or bytes, as text."""
    kind = np.uint8 if values.dtype == np.uint8 else "<f4"
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()


def floats(text: str) -> npt.NDArray[np.float32]:
    """Return float32 numbers that Node.js sent."""
    return np.frombuffer(base64.b64decode(text), "<f4")


def levels(text: str) -> npt.NDArray[np.uint8]:
    """Return bytes that Node.js sent."""
    return np.frombuffer(base64.b64decode(text), np.uint8)
