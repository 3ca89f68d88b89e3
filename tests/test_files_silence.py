"""Lines of native libraries are held back, whatever threads load at the same time."""

from __future__ import annotations

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from msd.files.silence import without_lines


def test_stderr_is_itself_again_after_two_threads(capfd: pytest.CaptureFixture[str]) -> None:
    def load(seconds: float) -> None:
        with without_lines(re.compile(rb"INFO")):
            os.write(2, b"INFO of a library\n")
            time.sleep(seconds)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(load, (0.2, 0.1)))
    os.write(2, b"said afterwards\n")
    assert capfd.readouterr().err == "said afterwards\n"
