"""What this machine is, for a stored result."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """A machine when it was asked: `load` is its load average of the last minute, `memory_bytes` all it has.

    `processor` is its model in its maker's words, or only its architecture.
    """

    system: str
    architecture: str
    processor: str
    cores: int
    memory_bytes: int
    load: float

    @property
    def busy(self) -> bool:
        """Whether others were working: measured times are then longer than they need be."""
        return self.load > self.cores / 2


def this_machine() -> Machine:
    """Return what this machine is now."""
    architecture, pages = platform.machine(), os.sysconf("SC_PHYS_PAGES")
    return Machine(
        system=platform.system(),
        architecture=architecture,
        processor=_processor() or architecture,
        cores=os.cpu_count() or 1,
        memory_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
        load=round(os.getloadavg()[0], 2),
    )


def _processor() -> str | None:
    try:
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        return None
    return found.group(1).strip() if found else None
