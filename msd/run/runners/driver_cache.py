"""The folder in which a GPU's driver keeps the pipelines that a process compiles.

NVIDIA's driver writes a file for each of several processes side by side, and a later process reads one of
them: a network whose pipelines lie in another's file is compiled once more (docs/results.md, whole commands).
So processes side by side have folders of their own, and a network prefers one that it was compiled to before.
Other drivers ignore the variable.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from msd.files.cache import cache_root

VARIABLE = "__GL_SHADER_DISK_CACHE_PATH"
"""Where NVIDIA's driver keeps compiled shaders, Vulkan's too."""
MOST = 8
"""The most folders; further processes have the driver's own."""


@dataclass(frozen=True)
class DriverCache:
    """A folder that no other process has until this is closed; None for the place that the driver chooses."""

    folder: Path | None = None
    lock: IO[bytes] | None = None

    @staticmethod
    def claimed(network: str | None = None) -> DriverCache:
        """Return a free folder, rather one that knows `network`; none where the user has chosen one."""
        folders = [cache_root() / "drivers" / str(number) for number in range(MOST)]
        known = [each for each in folders if network and _mark(each, network).exists()]
        if VARIABLE not in os.environ:
            with suppress(OSError):  # a cache that cannot be written is none
                for folder in [*known, *folders]:
                    if lock := _locked(folder):
                        return DriverCache(folder, lock)
        return DriverCache()

    @property
    def environment(self) -> dict[str, str]:
        """What the process is started with."""
        return {VARIABLE: str(self.folder)} if self.folder else {}

    def knows(self, network: str) -> bool:
        """Return whether a network of this name was compiled to the folder."""
        return self.folder is not None and _mark(self.folder, network).exists()

    def note(self, network: str) -> None:
        """Remember that a network of this name is compiled to the folder."""
        if self.folder:
            with suppress(OSError):
                _mark(self.folder, network).touch()

    def close(self) -> None:
        """Leave the folder to other processes."""
        if self.lock:
            self.lock.close()


def _locked(folder: Path) -> IO[bytes] | None:
    """Return the open lock of a folder, which is made; None where another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / "lock").open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _mark(folder: Path, network: str) -> Path:
    return folder / f"{network}.compiled"
