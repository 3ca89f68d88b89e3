"""The peak is this program's own, not that of whoever started it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from msd.runners.peak_memory import peak_rss


def test_it_grows_with_what_is_touched() -> None:
    before = peak_rss()
    filled = np.ones(1 << 28, np.uint8)
    assert peak_rss() >= before + filled.size // 2 or peak_rss() >= filled.size


def test_a_small_program_started_by_a_large_one_is_small() -> None:
    ballast = np.ones(1 << 28, np.uint8)
    code = "from msd.runners.peak_memory import peak_rss; print(peak_rss())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 1 << 20 < int(said) < ballast.size
