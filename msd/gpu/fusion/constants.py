"""What rules ask of constants."""

import numpy as np

from msd.graph.ir.real_numbers import obstacle, real_numbers
from msd.graph.ir.weights import Array
from msd.graph.rewrite import Tensor

MOST = 1 << 22
"""The most elements of a constant that rules look into: filters that average over groups."""


def reals(tensor: Tensor) -> Array:
    """Return a constant's numbers as float32, NaN for a large one and where they are unknown."""
    if tensor.size > MOST or obstacle(tensor):
        return np.full(tensor.shape, np.nan, np.float32)
    return real_numbers(tensor)


def per_channel(tensor: Tensor, channels: int) -> bool:
    """Whether the constant has one float per channel, along its last axis."""
    floats = tensor.dtype in ("FLOAT32", "FLOAT16")
    return floats and tensor.size == channels and tensor.shape[-1:] == (channels,)
