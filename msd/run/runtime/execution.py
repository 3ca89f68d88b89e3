"""Keeps the networks of a bundle in memory: one at a time, all of them, or also the next one to run.

    sequential   each is loaded when it is needed and freed before the next is loaded
    resident     all are loaded at the start, side by side, and kept
    pipelined    the next is loaded by a child thread while another is loaded or runs, and freed as soon as it
                 has run

Pipelined execution after Choi et al. (2023, Squeezing Large-Scale Diffusion Models for Mobile, arXiv
2307.01193, section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Event
from time import perf_counter
from types import TracebackType
from typing import Literal

from msd.run.runtime.components import LoadedNetwork
from msd.run.runtime.timeline import Watch, unwatched

Execution = Literal["pipelined", "sequential", "resident"]
EXECUTIONS: tuple[Execution, ...] = ("pipelined", "sequential", "resident")

LOADERS = 2
"""The networks that are loaded side by side: on a GPU each compiles shaders in a process of its own."""
MARGIN = 2.0
"""The factor by which loading a network may take longer while another one runs."""

Open = Callable[[str, Event], AbstractContextManager[LoadedNetwork]]
"""Opens a network by its name; it may give up once the event is set."""


@dataclass(frozen=True)
class _Loaded:
    """A network, the context manager that frees it, and the seconds that loading it took."""

    network: LoadedNetwork
    context: AbstractContextManager[LoadedNetwork]
    seconds: float


class NetworksInMemory:
    """The networks in memory; a context manager that frees them.

    `sizes` are the bytes of their files, by name. LOADERS child threads load them, in the order of the
    requests; `watch` records each load and unload.
    """

    def __init__(
        self, open_network: Open, sizes: Mapping[str, int], execution: Execution, watch: Watch = unwatched
    ) -> None:
        self.execution = execution
        self._open, self._sizes, self._watch = open_network, sizes, watch
        self._loader = ThreadPoolExecutor(LOADERS, "msd-loader")
        self._stop = Event()
        self._futures: dict[str, Future[_Loaded]] = {}
        self._seen: list[tuple[int, float]] = []

    def prefetch(self, name: str) -> None:
        """Begin to load a network that will be taken, where execution is pipelined; returns at once."""
        if self.execution == "pipelined":
            self._start_loading(name)

    def prefetch_in_time(self, name: str, steps: int, seconds: float) -> None:
        """Prefetch a network when `steps` of `seconds` each, all that remain, just suffice to load it.

        The estimate is a line through the sizes and seconds of the smallest and the largest that were loaded,
        or in proportion to the only one.
        """
        if steps <= 1 or steps * seconds <= MARGIN * self._expected(self._sizes[name]):
            self.prefetch(name)

    def take_all(self, names: Iterable[str]) -> None:
        """Return once all of these networks are loaded; raises what loading one of them raises."""
        names = [*names]
        for name in names:
            self._start_loading(name)
        for name in names:
            self.take(name)

    def take(self, name: str) -> LoadedNetwork:
        """Return a network once it is loaded; raises what loading it raises."""
        self._start_loading(name)
        return self._futures[name].result().network

    @property
    def loading(self) -> tuple[str, ...]:
        """The names of the networks that are loaded or being loaded, in the order of the requests."""
        return tuple(self._futures)

    def release(self, name: str) -> None:
        """Free a network that no image of this call needs any more, unless networks are resident."""
        if self.execution != "resident":
            self._free(name)

    def close(self) -> None:
        """Free every network, and cancel those that are being loaded."""
        self._stop.set()
        try:
            self._loader.shutdown(cancel_futures=True)
        finally:
            for name in [*self._futures]:
                self._free(name)

    def __enter__(self) -> NetworksInMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start_loading(self, name: str) -> None:
        if name not in self._futures:
            self._futures[name] = self._loader.submit(self._load, name)

    def _load(self, name: str) -> _Loaded:
        start = perf_counter()
        with self._watch(name, "load") as parts:
            context = self._open(name, self._stop)
            network = context.__enter__()
            parts += network.opening
        seconds = perf_counter() - start
        self._seen.append((self._sizes[name], seconds))
        return _Loaded(network, context, seconds)

    def _expected(self, size: int) -> float:
        """Return the seconds that loading a file of `size` bytes should take, 0 before any was loaded."""
        if not self._seen:
            return 0.0
        (small, short), (large, long) = min(self._seen), max(self._seen)
        if small == large:
            return long * size / large
        per_byte = max(0.0, (long - short) / (large - small))
        return max(0.0, long - per_byte * (large - size))

    def _free(self, name: str) -> None:
        future = self._futures.pop(name)
        try:
            error = future.exception()
        except CancelledError:
            return
        if error is None:
            with self._watch(name, "unload"):
                future.result().context.__exit__(None, None, None)
