"""Quantities of a report: a unit in which what is small is not told as nothing."""

from __future__ import annotations

import pytest

from msd.measure.report.phrases import least, megabytes, traffic_phrases
from msd.measure.report.report import CountedTraffic, LeastTime, TrafficSum


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0.0 MB"),
        (1, "0.0 kB"),
        (768, "0.8 kB"),
        (49_999, "50.0 kB"),
        (50_000, "0.1 MB"),
        (12e6, "12.0 MB"),
    ],
)
def test_what_there_is_is_not_told_as_none(count: float, said: str) -> None:
    assert megabytes(count) == said


def test_a_small_run_is_told_in_small_units() -> None:
    apart, joined = TrafficSum(3, 9_000, 768, 4_000_000, {}), TrafficSum(2, 300, 768, 4_000_000, {})
    phrases = traffic_phrases(CountedTraffic(apart, joined, ()))
    assert phrases == ("3 → 2", "9.0 → 0.3 kB", "0.8 kB", "4.0 MFLOP")
    assert least(LeastTime("x", 31e-6, 20e-6)) == "31.0 → 20.0 us"
    assert least(LeastTime("x", 31e-3, 20e-6)) == "31.0 → 0.0 ms"
