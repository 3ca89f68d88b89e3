"""The embedded demo: a small Stable Diffusion 2.1 that draws captioned scenes, and a scorer that reads them.

`CHECKPOINT` is the diffusers folder (see its README.md); `score(image, caption)` says how much of a caption a
picture shows.
"""

from __future__ import annotations

from pathlib import Path

from msd.demo.scorer import score

CHECKPOINT = Path(__file__).parent / "checkpoint"

__all__ = ["CHECKPOINT", "score"]
