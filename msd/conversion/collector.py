"""Python's garbage collector, which finds nothing in the graphs of a conversion and takes long over it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Collect no cycles while the `with` block runs, unless that was so already.

    All that rewriting makes lives until it is written: walking it again and again finds nothing, and takes an
    eighth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def settled_memory() -> Iterator[Callable[[], None]]:
    """Walk nothing that is there now while the `with` block runs; yield what frees graphs no longer needed.

    What the block itself leaves, such as files that are read back, is collected as ever.
    """
    settle()
    try:
        yield settle
    finally:
        gc.unfreeze()


def settle() -> None:
    """Collect all cycles, and leave what stays out of later collections."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
