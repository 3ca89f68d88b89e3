"""Child processes that start, and open the GPU, before it is known which file each will load.

A process holds one file at a time, as one that starts with its file does, so that a crash is that file's.
When the file is freed, the next one takes the process, whose device is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from types import TracebackType

from msd.errors import DelegateFailed
from msd.run.runners.child import Bounds, Child
from msd.run.runners.driver_cache import DriverCache
from msd.run.runners.messages import OpenGpu, Unload

SECONDS = 60.0
"""The most seconds that freeing a file may take."""


class Processes:
    """`count` child processes, just started with `environment`; a context manager that ends them.

    `open_gpu` lets them open a device, which they do not wait for.

    Threads may take and give processes.
    """

    def __init__(self, count: int, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self._lock, self._idle = Lock(), list[Child]()
        try:
            for _ in range(count):
                self._idle.append(Child(environment, Bounds.of(SECONDS), cache=DriverCache.claimed()))
        except BaseException:
            self.close()
            raise

    def open_gpu(self, opening: OpenGpu) -> None:
        """Let each process open a device; returns at once."""
        for child in self._idle:
            child.tell(opening)

    def take(self, bounds: Bounds, network: str) -> Child | None:
        """Return a process that holds no file, with these bounds; None where there is none.

        It is one whose driver has compiled a network of this name before, if such a one is idle.
        """
        with self._lock:
            child = max(self._idle, key=lambda idle: idle.cache.knows(network), default=None)
            if child is None:
                return None
            self._idle.remove(child)
        if not child.lives:
            child.close()
            return self.take(bounds, network)
        child.cache.note(network)
        child.bounds = bounds
        return child

    def give(self, child: Child) -> None:
        """Free the file of a process and keep the process, or end one that does not answer."""
        child.bounds = replace(child.bounds, seconds=SECONDS)
        try:
            child.ask(Unload())
        except DelegateFailed:
            child.close()
            return
        with self._lock:
            self._idle.append(child)

    def kill(self) -> None:
        """Kill the processes that hold no file, without waiting for their end."""
        for child in self._idle:
            child.kill()

    def close(self) -> None:
        """End the processes that hold no file."""
        self.kill()
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
