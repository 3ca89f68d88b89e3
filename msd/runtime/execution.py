"""When the networks of a bundle are in memory: one at a time, all of them, or the next while another runs.

    sequential   each is loaded when it is needed and freed before the next is loaded
    resident     all are loaded at the start and kept
    pipelined    the next is loaded by a child thread while another runs, and freed as soon as it has run

Pipelined execution after Choi et al. (2023, Squeezing Large-Scale Diffusion Models for Mobile, arXiv
2307.01193, section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Event
from time import perf_counter
from types import TracebackType
from typing import Literal

from msd.runtime.components import LoadedNetwork
from msd.runtime.timeline import Watch, unwatched

Execution = Literal["pipelined", "sequential", "resident"]
EXECUTIONS: tuple[Execution, ...] = ("pipelined", "sequential", "resident")

MARGIN = 2.0
"""How much longer than alone a network may take to load while another one runs."""

Open = Callable[[str, Event], AbstractContextManager[LoadedNetwork]]
"""Opens the network of a name; when the event is set, it may give up."""


@dataclass(frozen=True)
class _Loaded:
    """A network, how to free it, and the seconds that loading it took."""

    network: LoadedNetwork
    opened: AbstractContextManager[LoadedNetwork]
    seconds: float


class NetworksInMemory:
    """The networks in memory; a context manager that frees them.

    `sizes` are the bytes of their files, by name. One child thread loads them, in the order they are asked
    for; `watch` is told what is loaded and freed.
    """

    def __init__(
        self, open_network: Open, sizes: Mapping[str, int], execution: Execution, watch: Watch = unwatched
    ) -> None:
        self.execution = execution
        self._open, self._sizes, self._watch = open_network, sizes, watch
        self._loader = ThreadPoolExecutor(1, "msd-loader")
        self._stop = Event()
        self._asked: dict[str, Future[_Loaded]] = {}
        self._per_byte = 0.0

    def prefetch(self, name: str) -> None:
        """Begin to load a network that will be taken, where execution is pipelined; returns at once."""
        if self.execution == "pipelined":
            self._ask(name)

    def prefetch_in_time(self, name: str, steps: int, seconds: float) -> None:
        """Prefetch a network when `steps` of `seconds` each, all that are left, just suffice to load it.

        How long that will be is what its size says after the last network that was loaded.
        """
        if steps <= 1 or steps * seconds <= MARGIN * self._per_byte * self._sizes[name]:
            self.prefetch(name)

    def take(self, name: str) -> LoadedNetwork:
        """Return a network, once it is loaded; raises what loading it raises."""
        self._ask(name)
        return self._asked[name].result().network

    @property
    def loading(self) -> tuple[str, ...]:
        """The names of those that are loaded, or being loaded, in the order they were asked for."""
        return tuple(self._asked)

    def release(self, name: str) -> None:
        """Free a network that no picture of this call needs any more, unless they are resident."""
        if self.execution != "resident":
            self._free(name)

    def close(self) -> None:
        """Free every network, and give up what is being loaded."""
        self._stop.set()
        try:
            self._loader.shutdown(cancel_futures=True)
        finally:
            for name in [*self._asked]:
                self._free(name)

    def __enter__(self) -> NetworksInMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, name: str) -> None:
        if name not in self._asked:
            self._asked[name] = self._loader.submit(self._load, name)

    def _load(self, name: str) -> _Loaded:
        begun = perf_counter()
        with self._watch(name, "load"):
            opened = self._open(name, self._stop)
            network = opened.__enter__()
        seconds = perf_counter() - begun
        self._per_byte = seconds / self._sizes[name]
        return _Loaded(network, opened, seconds)

    def _free(self, name: str) -> None:
        asked = self._asked.pop(name)
        try:
            failed = asked.exception()
        except CancelledError:
            return
        if failed is None:
            with self._watch(name, "unload"):
                asked.result().opened.__exit__(None, None, None)
