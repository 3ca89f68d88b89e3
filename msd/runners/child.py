"""A child process that loads and runs one model, and may be lost without harm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from threading import Event
from time import monotonic
from types import TracebackType

from msd.errors import DelegateFailed
from msd.runners.memory_sampler import descendants, resident
from msd.runners.worker import Done, Refused, Reply

PATIENCE = 0.1
"""Seconds between two looks at a busy child's memory."""

MEMORY_SHARE = 0.8
"""The part of the available memory that a child may take where nothing else is said."""

GIGABYTE = 1e9


class ChildLost(DelegateFailed):
    """The child process died, or was ended because it took too long or too much memory.

    `log`: what it printed before, where whoever runs it has kept that.
    """

    log = ""


class ChildRefused(DelegateFailed):
    """The child process lives and says that it cannot do what was asked, in the library's words.

    `log` as of ChildLost; `why`: the reason as a clause, where a backend has found it in there.
    """

    log, why = "", ""


@dataclass(frozen=True)
class Bounds:
    """What a child may take: seconds for each request, bytes of resident memory, and until `stop` is set."""

    seconds: float
    memory: int
    stop: Event | None = None

    @staticmethod
    def of(seconds: float, memory: int | None = None, stop: Event | None = None) -> Bounds:
        """Return bounds of `seconds` and `memory` bytes, or `MEMORY_SHARE` of what the machine has free."""
        return Bounds(seconds, memory or int(_free_memory() * MEMORY_SHARE), stop)


class Child:
    """One child process; `environment` is for it alone, and `log` is all that it and its libraries print.

    `worker` is the module whose `main` serves in it. `peak`: the most resident bytes that it was seen to
    hold, with the processes it started, at looks `PATIENCE` apart.
    """

    def __init__(
        self, environment: Mapping[str, str], bounds: Bounds, worker: str = "msd.runners.worker"
    ) -> None:
        self.bounds, self.peak = bounds, 0
        self._folder = tempfile.TemporaryDirectory(prefix="msd-delegate-", ignore_cleanup_errors=True)
        self._log = Path(self._folder.name) / "native.log"
        self._connection, theirs = Pipe()
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", f"from {worker} import main; main({theirs.fileno()})"],
                env=_environment(environment, Path(self._folder.name)),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        theirs.close()

    @property
    def log(self) -> str:
        """What the child has printed until now."""
        return self._log.read_text(errors="replace")

    def ask(self, request: object) -> Done:
        """Return the child's answer; raises ChildLost or ChildRefused."""
        try:
            self._connection.send(request)
            self._wait(monotonic() + self.bounds.seconds)
            reply: Reply = self._connection.recv()
        except (EOFError, ConnectionError) as problem:
            raise ChildLost(self._cause_of_death()) from problem
        if isinstance(reply, Refused):
            raise ChildRefused(reply.words)
        return reply

    def close(self) -> None:
        """End the child and remove its log."""
        self._connection.close()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._kill()
        self._folder.cleanup()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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
                raise ChildLost("its process was stopped: nobody needs it any more")
            if monotonic() > until:
                self._kill()
                raise ChildLost(
                    f"its process was stopped after {self.bounds.seconds:g} s, all it was allowed"
                )

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


def _environment(extra: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return this process's environment with `extra`, our own packages and a usable XDG_RUNTIME_DIR."""
    environment = {
        **os.environ,
        **extra,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TMPDIR": str(folder),  # what a child that was killed leaves goes with its log
    }
    runtime = environment.get("XDG_RUNTIME_DIR")
    if not runtime or not os.access(runtime, os.W_OK):
        environment["XDG_RUNTIME_DIR"] = str(folder)
    return environment


def _free_memory() -> int:
    """Return the bytes that Linux says a new process can have without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise DelegateFailed("/proc/meminfo does not name MemAvailable; say how much memory may be used")
