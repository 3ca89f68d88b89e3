"""The fewest steps at which the demo gives the colours that it is asked for."""

from __future__ import annotations

from collections.abc import Iterable

UNET_SHA256 = "83bbbada7c97126233906f6b248960fc8f6648381cbd965c5bb63f5e494d9da2"
"""Of the U-Net's file in `CHECKPOINT`, by which a bundle of it is known."""

LEAST_STEPS = 14
"""With DDIM and guidance 7.5; docs/demo-model-card.md has the measurement."""


def is_demo(hashes: Iterable[str]) -> bool:
    """Whether files with these SHA-256 are the demo checkpoint's, its U-Net not trained further."""
    return UNET_SHA256 in hashes
