"""Releases of a delegate's library, and what holds for which of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from msd.errors import BadConfig

NIGHTLY = "nightly"
"""A release that is newer than all others."""

LITERT = "litert-"
"""Begins the name of a release of LiteRT where TensorFlow's, which came before, have names too."""


def numbers(release: str) -> tuple[int, ...]:
    """Return a release's numbers to compare: (2, 1, 5) for 2.1.5, (2, 4, 0) for 2.4.0.dev20261026.

    Those of litert-2.1.5 are (1000, 2, 1, 5).
    """
    found = tuple(map(int, re.findall(r"\d+", release)[:3]))
    if release == NIGHTLY:
        return (10**9,)
    return (1000, *found) if release.startswith(LITERT) else found


@dataclass(frozen=True)
class Span:
    """The releases from `first` to `last`, both included; an empty one is no limit."""

    first: str = ""
    last: str = ""

    def __contains__(self, release: str) -> bool:
        """Whether `release` is one of them."""
        below = self.first and numbers(release) < numbers(self.first)
        return not below and not (self.last and numbers(release) > numbers(self.last))


ALWAYS = Span()


def require_known(release: str, known: Sequence[str], delegate: str) -> str:
    """Return the release whose rules to apply: the newest one known for a newer one.

    `known` is ordered. Raises BadConfig for one that is older than those, or none at all.
    """
    named = LITERT if known[-1].startswith(LITERT) else ""
    if release != NIGHTLY and not re.fullmatch(rf"({named})?\d+(\.\d+)+(\.dev\d+)?", release):
        raise BadConfig(f"{release} is no version; {delegate} has rules for {', '.join(known)}, nightly")
    if numbers(release) < numbers(known[0]):
        raise BadConfig(f"there are no rules of {delegate} for {release}; there are for {', '.join(known)}")
    return max((each for each in known if numbers(each) <= numbers(release)), key=numbers)
