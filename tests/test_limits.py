"""A number beside the limit that it breaks is written with as many digits as tell them apart."""

from __future__ import annotations

import pytest

from msd.measure.limits import rounded_apart
from msd.measure.regress.metrics import median_decibels

INFINITE = float("inf")


@pytest.mark.parametrize(
    ("value", "limit", "digits", "text"),
    [
        (43.2, 44.0, 1, "43.2"),
        (43.96, 44.0, 1, "43.96"),
        (43.96, 43.97, 1, "43.96"),
        (0.994999, 0.995, 4, "0.994999"),
        (1.0501, 1.05, 2, "1.0501"),
        (44.0, 44.0, 1, "44.0"),
        (0.25 - 1e-14, 0.25, 1, "0.2"),
        (0.3 - 1e-13, 0.3, 1, "0.2999999999999"),
    ],
)
def test_digits_tell_a_number_from_its_limit(value: float, limit: float, digits: int, text: str) -> None:
    assert rounded_apart(value, limit, digits) == text


@pytest.mark.parametrize(
    ("ratios", "median"),
    [
        ([INFINITE, 10.0], 10.0),
        ([INFINITE, 20.0, INFINITE, 10.0], 20.0),
        ([INFINITE, INFINITE, 10.0], INFINITE),
        ([30.0, 20.0, 10.0, 40.0], 25.0),
    ],
)
def test_an_equal_image_makes_no_other_equal(ratios: list[float], median: float) -> None:
    """Half of the images equal, and the other half wrong, is no median without a difference."""
    assert median_decibels(ratios) == median
