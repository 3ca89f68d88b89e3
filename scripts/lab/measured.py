"""Run a command and measure it from outside: wall time, and the memory of it and of all its children."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msd.run.runners.machine import this_machine
from msd.run.runners.memory_sampler import descendants

PAUSE = 0.02
"""Seconds between two looks at the memory."""


@dataclass(frozen=True)
class Measured:
    """Seconds of wall time, peak resident bytes of the largest process, and of all processes at one time."""

    seconds: float
    largest: int
    together: int


def measured(command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> Measured:
    """Run `command` and measure it; raises RuntimeError with its output if it fails."""
    begun = time.perf_counter()
    with subprocess.Popen(
        [str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env
    ) as process:
        largest = together = 0
        while process.poll() is None:
            peaks, now = _memory(process.pid)
            largest, together = max(largest, peaks), max(together, now)
            time.sleep(PAUSE)
        seconds = time.perf_counter() - begun
        printed = process.stderr.read() if process.stderr else ""
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}: {printed[-2000:]}")
    return Measured(round(seconds, 2), largest, max(largest, together))


def _memory(pid: int) -> tuple[int, int]:
    """Return the highest peak of any process of the tree at `pid`, and the current total of all, in bytes."""
    peak = now = 0
    for each in (pid, *descendants(pid)):
        peak, now = max(peak, _field(each, "VmHWM")), now + _field(each, "VmRSS")
    return peak, now


def _field(pid: int, name: str) -> int:
    """Return a field of /proc/PID/status in bytes; 0 for a process that has ended."""
    try:
        found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found.group(1)) * 1024 if found else 0


def machine() -> str:
    """Return a description of this machine, for a stored result."""
    found = this_machine()
    return f"{found.architecture}, {found.system}, {found.cores} cores"
