"""Turns at Python's lock, which threads that hash and measure take while another rewrites graphs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

TURN = 0.0005
"""Seconds that a thread waits for the lock before it asks for it: hashing needs it twice in 10 ms."""


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads that wait for Python's lock have it after a tenth of the usual time, for a `with` block."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, TURN))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
