"""Stable Diffusion checkpoints to .tflite files that a phone's GPU delegate runs whole.

`convert`, `open_bundle`, `generate`, `predict` and `judge` are the public API (docs/api.md); each is imported
when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msd.api import (
        Bundle,
        ConversionOptions,
        ImageSize,
        MsdError,
        convert,
        generate,
        judge,
        open_bundle,
        predict,
    )

__all__ = [
    "Bundle",
    "ConversionOptions",
    "ImageSize",
    "MsdError",
    "convert",
    "generate",
    "judge",
    "open_bundle",
    "predict",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Return what msd.api has under a public name."""
    if name in __all__:
        return getattr(import_module("msd.api"), name)
    raise AttributeError(f"module 'msd' has no attribute {name!r}; docs/api.md lists what is public")


def __dir__() -> list[str]:
    """Return the public names."""
    return [*__all__, "__version__"]
