"""The remark on fewer steps than a model needs: of the demo and the small XL of its scenes some are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msd.cli.plain import say

if TYPE_CHECKING:
    from msd.bundle import Bundle


def least_steps(bundle: Bundle) -> int:
    """Return the fewest steps, from noise, that are known to give what a prompt asks for; 1 if none are."""
    from msd.models.demo.least_steps import least_steps as least_of

    return least_of(file.sha256 for file in bundle.manifest.source.files.values())


def say_least_steps(bundle: Bundle, steps: int) -> None:
    """Say where the demo is asked for fewer steps than it needs."""
    least = least_steps(bundle)
    if steps < least:
        say(f"warning: with fewer than {least} steps the demo may give other colours than asked", err=True)
