"""The fewest steps at which the demo gives the colours that it is asked for."""

from __future__ import annotations

from msd.bundle import Manifest

UNET_SHA256 = "83bbbada7c97126233906f6b248960fc8f6648381cbd965c5bb63f5e494d9da2"
"""Of the U-Net's file in `CHECKPOINT`, by which a bundle of it is known."""

LEAST_STEPS = 14
"""With DDIM and guidance 7.5; docs/demo-model-card.md has the measurement."""


def is_demo(manifest: Manifest) -> bool:
    """Whether files were converted from the demo checkpoint, whose U-Net has not been trained further."""
    return any(file.sha256 == UNET_SHA256 for file in manifest.source.files.values())
