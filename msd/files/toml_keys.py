"""Checks on the keys of a table in a TOML file."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from msd.errors import BadConfig


def require_known_keys(where: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise BadConfig for the first key of `table` that is not `known`, with the nearest known key."""
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(known))}"
            raise BadConfig(f"{where}: unknown key {key!r}; {hint}")
