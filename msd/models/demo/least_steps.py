"""The fewest steps at which the demo, and the small XL of its scenes, show what they are asked for."""

from __future__ import annotations

from collections.abc import Iterable

UNET_SHA256 = "83bbbada7c97126233906f6b248960fc8f6648381cbd965c5bb63f5e494d9da2"
"""Of the U-Net's file in `CHECKPOINT`, by which a bundle of it is known."""

XL_UNET_SHA256 = "32c392d0d0f2d36e9a9a64347033e5a17954442a85e5da32d99300101fd718da"
"""Of the U-Net's file in scripts/demo_xl."""

LEAST_STEPS = {UNET_SHA256: 14, XL_UNET_SHA256: 11}
"""By the U-Net's file, each with its own scheduler and guidance 7.5; docs/demo-model-card.md has the
measurements."""


def is_demo(hashes: Iterable[str]) -> bool:
    """Whether files with these SHA-256 are the demo checkpoint's, its U-Net not trained further."""
    return UNET_SHA256 in hashes


def least_steps(hashes: Iterable[str]) -> int:
    """Return the fewest steps that the model of files with these SHA-256 needs; 1 where none are known."""
    return max((LEAST_STEPS.get(each, 1) for each in hashes), default=1)
