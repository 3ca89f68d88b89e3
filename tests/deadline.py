"""When tests stop that a slow machine has no time for: what had no turn is skipped and counted."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

import pytest

UNTIL = "TESTS_UNTIL"
"""The environment's name of the time, in seconds since 1970, after which no test begins."""
SENTENCE = f"no time was left: {UNTIL} had passed"


def require_time() -> None:
    """Skip the test that is to begin where the time is up."""
    if time.time() > float(os.environ.get(UNTIL, "inf")):
        pytest.skip(SENTENCE)


def count_left_out(skipped: Iterable[Any]) -> int:
    """Return how many reports of skipped tests are of those that had no turn."""
    return sum(SENTENCE in str(report.longrepr) for report in skipped)
