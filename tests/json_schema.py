"""The part of JSON Schema that msd.files.schema writes, checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def violations(value: Any, schema: dict[str, Any], where: str = "it") -> Iterator[str]:
    """Yield where `value` is not as `schema` says."""
    if "anyOf" in schema:
        if all(list(violations(value, each, where)) for each in schema["anyOf"]):
            yield f"{where} fits none"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is {value!r}"
    if "type" in schema and not isinstance(value, TYPES[schema["type"]]):
        yield f"{where} is no {schema['type']}"
    elif isinstance(value, dict):
        yield from (f"{where} lacks {name}" for name in schema.get("required", ()) if name not in value)
        for name, each in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            yield from violations(each, inner, f"{where}.{name}")
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from violations(each, schema.get("items", {}), f"{where}[{i}]")
