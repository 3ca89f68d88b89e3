"""Garbage in the tests' processes: looking at all that torch and TensorFlow hold takes a second each time."""

from __future__ import annotations

import gc
import sys

SELDOM = 100_000, 20, 20
"""Garbage is collected rarely."""
MANY = 5000
"""So many new objects are worth a collection of their own, after which no other looks at them."""

count_frozen = gc.get_freeze_count


def collect_seldom() -> None:
    """Collect rarely in this process, and let conversions ask in no time whether it has frozen objects."""
    gc.set_threshold(*SELDOM)
    gc.get_freeze_count = lambda: sys.maxsize  # counting them takes as long as a collection


def pass_over_the_past() -> None:
    """Let collections, of which each conversion asks for some, look only at what is new from now on."""
    young, middle, _ = gc.get_count()
    if young + middle * SELDOM[0] >= MANY:
        gc.collect()
        gc.freeze()
