"""What is a number of those that users and files give, and their bounds, each far beyond what is of use."""

from numbers import Integral, Real
from typing import Any

MOST_STEPS = 10_000
MOST_GUIDANCE = 1000.0
MOST_SCALE = 1000.0
"""Of a LoRA, of either sign."""

MOST_SEED = (1 << 63) - 1
MOST_THREADS = 1024
"""LiteRT works with 16,384, and crashes with 32,768."""

MOST_IMAGES = 1000
"""Of one command: all of them are in memory until the last one is done."""

MOST_IDS = 1 << 21
"""Ids of tokens are below this, as the rows of a text encoder's table; CLIP has 49,408."""

MOST_PROMPTS = 10_000
"""Of one file; each takes seconds to draw."""

MOST_PROMPT = 20_000
"""Letters; the longest prompt that is read, of 16 chunks, has some 5,000."""


def is_whole(value: Any) -> bool:
    """Return whether it is a whole number, of NumPy's too."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return whether it is a real number, of NumPy's too."""
    return isinstance(value, Real) and not isinstance(value, bool)
