"""Numbers beside the limit that they break."""

from __future__ import annotations

MOST_DIGITS = 17


def rounded_apart(value: float, limit: float, digits: int) -> str:
    """Return a number to so many digits, or as many more as put the text on its own side of a limit."""
    texts = (f"{value:.{n}f}" for n in range(digits, MOST_DIGITS + 1))
    side = (value > limit) - (value < limit)
    same = (text for text in texts if (float(text) > limit) - (float(text) < limit) == side)
    return next(same, f"{value!r}")
