"""A description of this machine, for a stored result."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """A machine at one moment; `load` is the load average of the last minute.

    `processor` is the vendor's name of the model, or only the architecture.
    """

    system: str
    architecture: str
    processor: str
    cores: int
    memory_bytes: int
    load: float

    @property
    def busy(self) -> bool:
        """Whether other processes were running, which lengthens measured times."""
        return self.load > self.cores / 2


def this_machine() -> Machine:
    """Return the description of this machine now."""
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
        match = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        return None
    return match.group(1).strip() if match else None
