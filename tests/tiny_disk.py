"""A real file system that is full at once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def tiny_disk(folder: Path, size: str = "4k") -> Iterator[Path]:
    """Yield a mount point of one page, or of `size`; skips the test where mounting is not allowed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount")
    try:
        yield folder
    finally:
        # Lazily: a disk that somebody still looks at goes once they look away.
        subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=True)
