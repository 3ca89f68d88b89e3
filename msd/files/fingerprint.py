"""Fingerprints of everything that determines a result: equal fingerprints mean equal bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

PACKAGES = Path(__file__).parents[2]
"""The folder of our packages `msd` and `graph_rewrites`."""


def fingerprint(facts: Any) -> str:
    """Return the SHA-256, in hexadecimal, of `facts` as JSON; other values count by their `repr`."""
    text = json.dumps(facts, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def code_fingerprint(*places: str) -> str:
    """Return the SHA-256 of our source files in `places`, such as "msd/models" or "msd/models/trace.py"."""
    digest = hashlib.sha256()
    for path in sorted(path for place in places for path in _sources(PACKAGES / place)):
        digest.update(f"{path.relative_to(PACKAGES).as_posix()} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _sources(place: Path) -> Iterable[Path]:
    return place.rglob("*.py") if place.is_dir() else [place]
