"""How much memory this process has taken at most."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path


def peak_rss() -> int:
    """Return the peak resident memory of this program in bytes.

    On Linux from /proc: what getrusage says is inherited from whoever started the program.
    """
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(found.group(1)) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
