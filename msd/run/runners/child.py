"""A child process that loads and runs one model; its crashes and hangs become errors here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from threading import Event
from time import monotonic
from types import TracebackType

from msd.errors import DelegateFailed
from msd.files.scratch import scratch_folder
from msd.run.runners.channel import Channel
from msd.run.runners.driver_cache import DriverCache
from msd.run.runners.memory_sampler import descendants, resident
from msd.run.runners.messages import Done, Refused, Reply

PATIENCE = 0.1
"""Seconds between two measurements of a busy child's memory."""

MEMORY_SHARE = 0.8
"""The default share of the available memory that a child may use."""

GIGABYTE = 1e9


class ChildLost(DelegateFailed):
    """The child process died, or was killed because it exceeded its time or memory.

    `log` is its output, where the caller has set it.
    """

    log = ""


class ChildRefused(DelegateFailed):
    """The child process is alive and could not carry out a request; the message is the library's.

    `log` as in ChildLost; `why` is the reason as a clause, where a backend has set it.
    """

    log, why = "", ""


@dataclass(frozen=True)
class Bounds:
    """The bounds of a child: seconds for each request, bytes of resident memory, an event that ends it."""

    seconds: float
    memory: int
    stop: Event | None = None

    @staticmethod
    def of(seconds: float, memory: int | None = None, stop: Event | None = None) -> Bounds:
        """Return bounds of `seconds` and `memory` bytes, or of `MEMORY_SHARE` of the available memory."""
        return Bounds(seconds, memory or int(_free_memory() * MEMORY_SHARE), stop)


class Child:
    """One child process, with `environment` added to its own, running `main` of the module `worker`.

    `log` has all output of it and its libraries. `peak` is the peak resident memory in bytes, of it and the
    processes it started, sampled every `PATIENCE` seconds. `cache` is where a GPU's driver keeps what the
    process compiles, None for the driver's own place.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        bounds: Bounds,
        worker: str = "msd.run.runners.worker",
        cache: DriverCache | None = None,
    ) -> None:
        self.bounds, self.peak, self._unread = bounds, 0, 0
        self.cache = cache or DriverCache()
        with ExitStack() as ours, ExitStack() as theirs:
            ours.callback(self.cache.close)
            folder = ours.enter_context(scratch_folder())
            self._log = folder / "native.log"
            self._connection, connection = Pipe()
            ours.enter_context(self._connection)
            self._channel = Channel(self._connection)
            ours.callback(self._channel.close)
            theirs.enter_context(connection)
            lifeline, held = os.pipe()
            ours.callback(os.close, held)
            theirs.callback(os.close, lifeline)
            log = theirs.enter_context(self._log.open("wb"))
            self.process = subprocess.Popen(
                self._command(worker, connection.fileno(), lifeline),
                env=_environment(self._inherited() | {**environment} | self.cache.environment, folder),
                pass_fds=[connection.fileno(), lifeline],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            self._held = ours.pop_all()

    @property
    def log(self) -> str:
        """The child's output until now."""
        return self._log.read_text(errors="replace")

    def ask(self, request: object) -> Done:
        """Return the child's answer; raises ChildLost or ChildRefused."""
        self.tell(request)
        return self.answer()

    def tell(self, request: object) -> None:
        """Send a request and do not wait; a child that has died is noticed when it should answer."""
        with suppress(ConnectionError):
            self._send(request)
        self._unread += 1

    def answer(self) -> Done:
        """Return the answer to the last request; raises ChildLost or ChildRefused.

        Answers to earlier ones, which were told or interrupted, are ignored.
        """
        try:
            until = monotonic() + self.bounds.seconds
            while self._unread:
                self._wait(until)
                reply = self._receive()
                self._unread -= 1
        except (EOFError, ConnectionError) as problem:
            raise ChildLost(self._cause_of_death()) from problem
        if isinstance(reply, Refused):
            raise ChildRefused(reply.words)
        return reply

    @property
    def lives(self) -> bool:
        """Whether its process has not ended."""
        return self.process.poll() is None

    def kill(self) -> None:
        """Kill the process without waiting for its end; `close` waits."""
        self.process.kill()

    def close(self) -> None:
        """End the child and remove its log."""
        self._connection.close()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._kill()
        self._held.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _command(self, worker: str, handle: int, lifeline: int) -> list[str]:
        """Return the command that starts the child, which inherits the two file descriptors."""
        return [sys.executable, "-c", program(worker, handle, lifeline)]

    def _inherited(self) -> dict[str, str]:
        """Return the environment that the child has from this process, with our own packages."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def _send(self, request: object) -> None:
        self._channel.send(request)

    def _receive(self) -> Reply:
        reply: Reply = self._channel.receive()
        return reply

    def _wait(self, until: float) -> None:
        while not self._connection.poll(PATIENCE):
            pid = self.process.pid
            used = resident(pid) + sum(map(resident, descendants(pid)))
            self.peak = max(self.peak, used)
            if used > self.bounds.memory:
                self._kill()
                limit = self.bounds.memory / GIGABYTE
                raise ChildLost(
                    f"its process was stopped at {used / GIGABYTE:.2f} GB of memory (allowed: {limit:.2f} GB)"
                )
            if self.bounds.stop is not None and self.bounds.stop.is_set():
                self._kill()
                raise ChildLost("its process was stopped because its result is no longer needed")
            if monotonic() > until:
                self._kill()
                raise ChildLost(f"its process was stopped after {self.bounds.seconds:g} s, the time allowed")

    def _cause_of_death(self) -> str:
        try:
            code = self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._kill()
            return "its process hung up"
        if code < 0:
            return f"its process crashed with {signal.Signals(-code).name}"
        return f"its process ended with exit code {code}"

    def _kill(self) -> None:
        self.process.kill()
        self.process.wait()


def program(worker: str, handle: int, lifeline: int) -> str:
    """Return what the child runs; it follows its parent before anything that takes long."""
    return (
        f"from msd.run.runners.lifeline import follow_parent; follow_parent({lifeline});"
        f" from {worker} import main; main({handle})"
    )


def _environment(inherited: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment `inherited` with a folder for temporary files and a usable XDG_RUNTIME_DIR."""
    environment = {
        **inherited,
        "TMPDIR": str(folder),  # so that the files of a killed child are removed with its log
    }
    runtime = environment.get("XDG_RUNTIME_DIR")
    if not runtime or not os.access(runtime, os.W_OK):
        environment["XDG_RUNTIME_DIR"] = str(folder)
    return environment


def _free_memory() -> int:
    """Return the bytes that a new process can allocate without swapping, as Linux estimates them."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise DelegateFailed("/proc/meminfo does not name MemAvailable; give a limit for memory")
