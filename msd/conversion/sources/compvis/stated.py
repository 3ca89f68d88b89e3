"""What a configuration of several levels says under a key."""

from __future__ import annotations

from typing import Any


def find_value(config: Any, *keys: str) -> Any:
    """Return the value of the first of `keys` on the least level that has one, as the model's own is.

    None where no level has one, or it is null.
    """
    level = [config]
    while level:
        if found := [each[key] for key in keys for each in level if isinstance(each, dict) and key in each]:
            return found[0]
        level = [inner for each in level for inner in _inner(each)]
    return None


def _inner(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def state(value: Any) -> str:
    """Return a value as it may stand in the file."""
    if isinstance(value, list):
        return f"[{', '.join(map(state, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
