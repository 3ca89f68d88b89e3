"""One input or output of a network, as files, manifests and runners describe it."""

from __future__ import annotations

from dataclasses import dataclass


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
