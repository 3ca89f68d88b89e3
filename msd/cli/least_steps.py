"""The remark on fewer steps than a model's colours need, of the models of which it was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msd.cli.plain import say

if TYPE_CHECKING:
    from msd.bundle import Bundle

XL_UNET_SHA256 = "32c392d0d0f2d36e9a9a64347033e5a17954442a85e5da32d99300101fd718da"
"""Of the U-Net's file in scripts/demo_xl, by which a bundle of it is known."""

XL_LEAST_STEPS = 16
"""With Euler and guidance 7.5; docs/demo-model-card.md has the measurement."""


def least_steps(bundle: Bundle) -> int:
    """Return the fewest steps, from noise, that are known to give what a prompt asks for; 1 if none are."""
    from msd.models.demo.least_steps import LEAST_STEPS, UNET_SHA256

    known = {UNET_SHA256: LEAST_STEPS, XL_UNET_SHA256: XL_LEAST_STEPS}
    return max((known.get(file.sha256, 1) for file in bundle.manifest.source.files.values()), default=1)


def say_least_steps(bundle: Bundle, steps: int) -> None:
    """Say where a model is asked for fewer steps than its colours need."""
    least = least_steps(bundle)
    if steps < least:
        say(f"warning: with fewer than {least} steps the demo may give other colours than asked", err=True)
