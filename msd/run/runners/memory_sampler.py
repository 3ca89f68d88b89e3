"""Sample the resident memory of the parent process and of its other children until standard input closes.

It runs as a script with the standard library only, so that it starts fast and stays small. It writes lines of
three numbers: seconds of the monotonic clock, which `time.perf_counter` uses on Linux, and the two in bytes.
"""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path

PERIOD = 0.02
"""Seconds between two samples."""

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident(pid: int) -> int:
    """Return the resident bytes of process `pid`, 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def descendants(pid: int) -> list[int]:
    """Return the processes that `pid` has started, and those that they have, except this process."""
    pids: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            pids += map(int, file.read_text().split())
        except OSError:  # a thread that has just ended
            continue
    children = [child for child in pids if child != os.getpid()]
    return [*children, *(deeper for child in children for deeper in descendants(child))]


def main() -> None:
    """Write samples until the parent closes this process's standard input, or dies."""
    parent = os.getppid()
    while resident(parent):
        children = sum(map(resident, descendants(parent)))
        line = f"{time.perf_counter()} {resident(parent)} {children}\n"
        try:
            os.write(sys.stdout.fileno(), line.encode())  # Python's own stream would complain at the end
        except BrokenPipeError:  # the parent has just ended
            return
        if select.select([sys.stdin], [], [], PERIOD)[0]:
            return


if __name__ == "__main__":
    main()
