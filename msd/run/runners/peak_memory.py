"""The peak memory of this process."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path


def peak_rss() -> int:
    """Return the peak resident memory of this process in bytes.

    On Linux it comes from /proc, because a process inherits getrusage's value from its parent.
    """
    status = Path("/proc/self/status")
    if status.exists() and (match := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(match.group(1)) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
