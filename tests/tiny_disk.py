"""A real file system that is full at once."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PATIENCE = 40
"""How often, a quarter of a second apart, a disk is taken away that somebody still looks at."""


@contextmanager
def tiny_disk(folder: Path, size: str = "4k") -> Iterator[Path]:
    """Yield a mount point of one page, or of `size`; skips the test where mounting is not allowed.

    Raises CalledProcessError where a file on it stays open.
    """
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount")
    try:
        yield folder
    finally:
        _unmount(folder)


def _unmount(folder: Path) -> None:
    for left in reversed(range(PATIENCE)):
        done = subprocess.run(["umount", str(folder)], capture_output=True, check=left == 0)
        if done.returncode == 0:
            return
        time.sleep(0.25)
