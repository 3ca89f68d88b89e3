"""What `nvidia-smi` says: the GPU's name, and its memory in use, once or sampled while something runs."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time

COMMAND = "nvidia-smi"
MEMORY = (COMMAND, "--query-gpu=memory.used", "--format=csv,noheader,nounits")
NAME = (COMMAND, "--query-gpu=name,driver_version", "--format=csv,noheader")
PERIOD_MS = 20
SETTLED = 0.3
"""Seconds after which a sample tells of what went before."""


def gpu_used() -> int:
    """Return the bytes of GPU memory in use, 0 without nvidia-smi."""
    return int(_said(MEMORY).split()[0]) << 20 if shutil.which(COMMAND) else 0


def gpu_name() -> str | None:
    """Return the GPU's name and its driver's version, None without nvidia-smi."""
    return _said(NAME).strip() if shutil.which(COMMAND) else None


def _said(query: tuple[str, ...]) -> str:
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout


class SampledGpu:
    """Samples until `close`; without nvidia-smi there are none, and every figure is None."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: int | None = None
        self._most: int | None = None
        self._process: subprocess.Popen[str] | None = None
        if shutil.which(COMMAND):
            query = (*MEMORY, f"--loop-ms={PERIOD_MS}")
            self._process = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
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
