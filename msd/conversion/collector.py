"""Python's garbage collector, which finds nothing in the graphs of a conversion and takes long over it."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OWN = 1000
"""Fewer frozen objects are the interpreter's own: Python 3.12 begins with 375."""


@contextmanager
def collect_on_request() -> Iterator[Callable[[], object]]:
    """Collect cycles only when what is yielded is called, and only those of the `with` block.

    All that rewriting makes lives until it is written: walking it again and again finds nothing, and takes an
    eighth of the time. What was there before, such as all that PyTorch and TensorFlow keep, is not walked at
    all, unless the caller has frozen objects of its own, which stay as they are. What is free then goes back
    to the system.
    """
    was_enabled, freezes = gc.isenabled(), gc.get_freeze_count() < OWN
    gc.disable()
    if freezes:
        gc.freeze()
    try:
        yield _collect
    finally:
        if freezes:
            gc.unfreeze()
        if was_enabled:
            gc.enable()


def _collect() -> None:
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc keeps what lies between other blocks
        trim(0)
