"""The remark on fewer steps than a model's colours need: the demo alone is known to need some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msd.cli.plain import say

if TYPE_CHECKING:
    from msd.bundle import Bundle


def least_steps(bundle: Bundle) -> int:
    """Return the fewest steps, from noise, that are known to give what a prompt asks for; 1 if none are."""
    from msd.models.demo.least_steps import LEAST_STEPS, is_demo

    hashes = (file.sha256 for file in bundle.manifest.source.files.values())
    return LEAST_STEPS if is_demo(hashes) else 1


def say_least_steps(bundle: Bundle, steps: int) -> None:
    """Say where the demo is asked for fewer steps than its colours need."""
    least = least_steps(bundle)
    if steps < least:
        say(f"warning: with fewer than {least} steps the demo may give other colours than asked", err=True)
