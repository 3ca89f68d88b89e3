"""Seconds between stages."""

from __future__ import annotations

import time


class Stopwatch:
    """Seconds between laps, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.restart()

    def restart(self) -> None:
        """Begin a lap now."""
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Add the seconds since the lap began to those of `name`, and begin another."""
        now = time.perf_counter()
        self.seconds[name] = round(self.seconds.get(name, 0.0) + now - self._last, 3)
        self._last = now
