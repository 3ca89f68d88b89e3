"""Threads wait less for Python's lock while components are prepared, and as long as before afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from msd.conversion.turns import TURN, short_turns


@pytest.fixture(autouse=True)
def _interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("before", [0.005, TURN / 4])
def test_turns_are_short_and_then_as_they_were(before: float, fails: bool) -> None:
    sys.setswitchinterval(before)
    with suppress(KeyError), short_turns():
        assert sys.getswitchinterval() == pytest.approx(min(before, TURN))
        if fails:
            raise KeyError
    assert sys.getswitchinterval() == pytest.approx(before)
