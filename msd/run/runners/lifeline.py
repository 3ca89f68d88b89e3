"""A pipe by which a child process ends with its parent, however that ended."""

from __future__ import annotations

import fcntl
import os
import select
import signal


def follow_parent(reader: int) -> None:
    """Let the system kill this process when the last write end of the pipe `reader` is closed.

    A killed parent closes nothing itself, but the system does. The signal reaches a process that is deep in a
    native library, where a thread of Python might never run (fcntl(2), F_SETSIG).
    """
    fcntl.fcntl(reader, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(reader, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(reader, fcntl.F_SETFL, fcntl.fcntl(reader, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(reader, 0)
    if poll.poll(0):  # it was closed before the system was asked
        os.kill(os.getpid(), signal.SIGKILL)
