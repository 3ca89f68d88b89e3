"""The types of the arrays that images are made from and made of."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]
Pixels = npt.NDArray[np.uint8]
"""An image's red, green and blue, from 0 to 255."""
