"""What a command has found when an error or Ctrl-C ends it: it is shown, not lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from msd.cli.plain import say

T = TypeVar("T")
NOTHING_WRITTEN = "the tables have what was measured until then, and nothing is written"


@contextmanager
def shown_if_stopped(show: Callable[[T], None], told: str = NOTHING_WRITTEN) -> Iterator[Callable[[T], None]]:
    """Yield what takes the result so far; the last one goes to `show` where something ends the block.

    Then stderr says "stopped: " and what is `told`. Stdout is for whole results: `show` prints on stderr.
    """
    so_far = deque[T](maxlen=1)
    try:
        yield so_far.append
    except BaseException:
        for result in so_far:
            show(result)
            say(f"stopped: {told}", err=True)
        raise
