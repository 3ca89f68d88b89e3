"""Work that threads do ahead of the one who takes its results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

Task = tuple[int, Callable[[], Result]]
"""The bytes that a piece of work and its result take, and the work."""


def in_order(tasks: Iterable[Task[Result]], threads: int, room: int) -> Iterator[Result]:
    """Yield the result of each task, in order, while up to `threads` threads work on those that follow.

    Tasks that are begun and whose results are not yet taken need at most `room` bytes, or there is only one.
    With one thread, each task runs when its result is asked for. Raises what a task raises, in its turn.
    """
    if threads == 1:
        yield from (work() for _, work in tasks)
        return
    begun, taken = deque[tuple[int, Future[Result]]](), 0
    pool = ThreadPoolExecutor(threads)
    try:
        for size, work in tasks:
            while begun and taken + size > room:
                yield begun[0][1].result()
                taken -= begun.popleft()[0]
            begun.append((size, pool.submit(work)))
            taken += size
        while begun:
            yield begun.popleft()[1].result()
    finally:
        pool.shutdown(cancel_futures=True)
