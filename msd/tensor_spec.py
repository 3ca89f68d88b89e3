"""One input or output of a network, as files, manifests and runners describe it."""

from __future__ import annotations

import math
from dataclasses import dataclass

DTYPES = (
    *("float64", "float32", "float16", "int64", "int32", "int16", "int8"),
    *("uint8", "uint16", "uint32", "uint64", "bool", "complex64"),
)
"""The types of TFLite that NumPy has too."""

MOST_AXES = 8
MOST_ELEMENTS = 1 << 31


@dataclass(frozen=True)
class TensorSpec:
    """One input or output: its name in the signature (else the tensor's), shape, NumPy dtype and layout.

    `layout` names the axes, "NHWC" for images and latents. `table_length` is the number of rows of the table
    that an integer input indexes, None without such a table.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: str = ""
    table_length: int | None = None

    def require_sensible(self) -> None:
        """Raise ValueError, with a clause, for a type or a shape that no network has."""
        if self.dtype not in DTYPES:
            raise ValueError(f"{self.name} has the dtype {self.dtype!r}, and there are {', '.join(DTYPES)}")
        if len(self.shape) > MOST_AXES or min(self.shape, default=1) < 1:
            raise ValueError(
                f"{self.name} has the shape {list(self.shape)}; up to {MOST_AXES} axes from 1 were expected"
            )
        if math.prod(self.shape) > MOST_ELEMENTS:
            raise ValueError(
                f"{self.name} has the shape {list(self.shape)}, more than {MOST_ELEMENTS} elements"
            )
