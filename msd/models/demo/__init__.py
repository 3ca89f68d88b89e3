"""The embedded demo: a small Stable Diffusion 2.1 for captioned scenes, and a scorer that reads its images.

`CHECKPOINT` is the diffusers folder (see its README.md); `score(image, caption)` returns the share of a
caption that an image shows.
"""

from __future__ import annotations

from pathlib import Path

from msd.models.demo.scorer import score

CHECKPOINT = Path(__file__).parent / "checkpoint"

__all__ = ["CHECKPOINT", "score"]
