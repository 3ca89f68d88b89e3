"""The real command `msd serve` on a folder, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(site: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Yield the running command and its port; at the end it is gone with all its connections."""
    command = [sys.executable, "-c", "from msd.cli import msd; msd()", "serve", str(site)]
    with subprocess.Popen(
        [*command, "--port", "0", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            said = json.loads(process.stdout.readline())
            assert said["address"] == f"http://127.0.0.1:{said['port']}/"
            yield process, said["port"]
        finally:
            process.kill()
