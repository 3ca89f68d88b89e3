"""A test begins until the time is up; what had no turn is counted."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from tests.deadline import SENTENCE, UNTIL, count_left_out, require_time


@pytest.mark.parametrize("until", [None, "inf", "4102444800"])
def test_there_is_time(until: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(UNTIL, raising=False)
    if until:
        monkeypatch.setenv(UNTIL, until)
    require_time()


def test_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNTIL, str(time.time() - 1))
    with pytest.raises(pytest.skip.Exception, match="no time was left: TESTS_UNTIL had passed"):
        require_time()


def test_those_without_a_turn_are_told_from_others() -> None:
    reports = [SimpleNamespace(longrepr=("f.py", 3, f"Skipped: {why}")) for why in (SENTENCE, "no Chromium")]
    assert count_left_out(reports) == 1
