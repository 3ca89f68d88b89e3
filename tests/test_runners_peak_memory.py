"""The peak is this program's own, not that of whoever started it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

SIZE = 1 << 28


def printed(code: str) -> list[int]:
    """Return the numbers that `code` prints in a Python process of its own."""
    code = f"from msd.run.runners.peak_memory import peak_rss\n{code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [int(number) for number in done.stdout.split()]


def test_it_grows_with_what_is_touched_and_stays() -> None:
    before, filled, after = printed(
        "print(peak_rss())\n"
        f"block = bytearray({SIZE})\n"
        f"block[::4096] = bytes({SIZE} // 4096)\n"
        "print(peak_rss())\n"
        "del block\n"
        "print(peak_rss())\n"
    )
    assert before < SIZE // 2
    assert before + 0.95 * SIZE < filled < before + 1.1 * SIZE
    assert after > before + 0.95 * SIZE


def test_a_small_program_started_by_a_large_one_is_small() -> None:
    ballast = np.ones(SIZE, np.uint8)
    (peak,) = printed("print(peak_rss())")
    assert 1 << 20 < peak < ballast.size
