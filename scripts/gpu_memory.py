"""The GPU's memory in use, sampled by `nvidia-smi` while something runs."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time

PERIOD_MS = 20
QUERY = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", f"--loop-ms={PERIOD_MS}")
SETTLED = 0.3
"""Seconds after which a sample tells of what went before."""


class SampledGpu:
    """Samples until `close`; without nvidia-smi there are none, and every figure is None."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: int | None = None
        self._most: int | None = None
        self._process: subprocess.Popen[str] | None = None
        if shutil.which(QUERY[0]):
            self._process = subprocess.Popen(QUERY, stdout=subprocess.PIPE, text=True)
            threading.Thread(target=self._sample, args=(self._process,), daemon=True).start()

    def level(self) -> int | None:
        """Return the bytes in use now; the peak is counted from here on."""
        if self._process is None:
            return None
        time.sleep(SETTLED)
        with self._lock:
            self._most = self._last
            return self._last

    def peak(self) -> int | None:
        """Return the most bytes in use since `level`."""
        if self._process is None:
            return None
        time.sleep(SETTLED)
        with self._lock:
            return self._most

    def close(self) -> None:
        """End sampling."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def _sample(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        for line in process.stdout:
            if line.strip().isdigit():
                with self._lock:
                    self._last = int(line) << 20
                    self._most = max(self._most or 0, self._last)
