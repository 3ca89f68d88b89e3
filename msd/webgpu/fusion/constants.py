"""What rules ask of constants."""

import numpy as np

from msd.ir.weights import Array
from msd.rewrite import Tensor

MOST = 1 << 22
"""The most elements of a constant that rules look into: filters that average over groups."""


def reals(tensor: Tensor) -> Array:
    """Return a constant's numbers as float32; raises ValueError for a large one and for a quantised one."""
    if tensor.size > MOST or (tensor.quant and tensor.quant.scale.size):
        raise ValueError(f"{tensor.name} is no small constant of floats")
    return np.asarray(tensor.weights.load(), np.float32)


def per_channel(tensor: Tensor, channels: int) -> bool:
    """Whether the constant has one float per channel, along its last axis."""
    floats = tensor.dtype in ("FLOAT32", "FLOAT16")
    return floats and tensor.size == channels and tensor.shape[-1:] == (channels,)
