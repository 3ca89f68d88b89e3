"""Frozen dataclasses from JSON, and the JSON Schema they stand for.

The dataclass is the only place where a format is written down: `read` checks a parsed file against it and
says where it is wrong, `describe` makes the schema for other programs.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import Any

DRAFT = "https://json-schema.org/draft/2020-12/schema"
UNLESS_EMPTY = {"unless_empty": True}
"""Metadata of a field that JSON leaves out where it is empty."""

NAMES: dict[type, str] = {int: "integer", float: "number", str: "string", bool: "boolean"}


def load(kind: Any, path: Path, newest: int, what: str, oldest: int = 1) -> Any:
    """Return the JSON file at `path` as `kind`, a dataclass with a `format`, from `oldest` to `newest`.

    Raises OSError, or ValueError with a sentence for a file that is no JSON, newer, older, or not `what`.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{path} is not JSON: {problem}") from problem
    version = value.get("format") if isinstance(value, dict) else None
    if isinstance(version, int) and version > newest:
        raise ValueError(
            f"{path} has format {version} and this msd reads up to {newest}; a newer msd is needed"
        )
    if isinstance(version, int) and version < oldest:
        raise ValueError(
            f"{path} has format {version}, which an older msd wrote; this one reads from {oldest}:"
            " make it again"
        )
    try:
        return read(kind, value, path.name)
    except ValueError as problem:
        raise ValueError(f"{path} is not {what}: {problem}") from problem


def dump(value: Any) -> str:
    """Return the JSON text of a dataclass that `load` reads, its `format` first, ending in a newline."""
    form = to_json(value)
    return json.dumps({"format": form.pop("format"), **form}, indent=2, ensure_ascii=False) + "\n"


def to_json(value: Any) -> Any:
    """Return a dataclass, or what may stand in one, as objects, lists and scalars of JSON."""
    if dataclasses.is_dataclass(value):
        fields = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {f.name: to_json(item) for f, item in fields if item or not f.metadata.get("unless_empty")}
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, list | tuple) else value


def document(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of files of `kind`, saying which draft it follows."""
    return {"$schema": DRAFT, **describe(kind)}


def read(kind: Any, value: object, where: str) -> Any:
    """Return parsed JSON as `kind`: a dataclass, tuple[T, ...], dict[str, T], T | None, Literal, scalar, Any.

    Keys that `kind` lacks are ignored, so that a later version may add some. Raises ValueError with a
    sentence that names the place, starting from `where`.
    """
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _read_object(typing.cast(type, kind), value, where)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is UnionType:
        return None if value is None else read(arguments[0], value, where)
    if origin is dict:
        items = _expect(dict, value, where, "an object").items()
        return {key: read(arguments[1], item, f"{where}.{key}") for key, item in items}
    if origin is tuple:
        listed = enumerate(_expect(list, value, where, "a list"))
        return tuple(read(arguments[0], item, f"{where}[{i}]") for i, item in listed)
    if origin is typing.Literal:
        return _read_literal(arguments, value, where)
    return _read_scalar(kind, value, where)


def describe(kind: Any, within: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of `kind`; inside itself a dataclass is just an object."""
    if kind is Any:
        return {}
    if dataclasses.is_dataclass(kind):
        return {"type": "object"} if kind in within else _describe_object(typing.cast(type, kind), within)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is UnionType:
        return {"anyOf": [describe(arguments[0], within), {"type": "null"}]}
    if origin is dict:
        return {"type": "object", "additionalProperties": describe(arguments[1], within)}
    if origin is tuple:
        return {"type": "array", "items": describe(arguments[0], within)}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    return {"type": NAMES[kind]}


def _fields(kind: type) -> list[tuple[str, Any, bool]]:
    """Return each field's name, type, and whether a file must have it."""
    types = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    return [
        (f.name, types[f.name], f.default is missing and f.default_factory is missing)
        for f in dataclasses.fields(kind)
    ]


def _read_object(kind: Callable[..., Any], value: object, where: str) -> Any:
    given = _expect(dict, value, where, "an object")
    wanted = _fields(typing.cast(type, kind))
    for name, _, required in wanted:
        if required and name not in given:
            raise ValueError(f"{where} lacks {name!r}")
    return kind(**{name: read(t, given[name], f"{where}.{name}") for name, t, _ in wanted if name in given})


def _describe_object(kind: type, within: tuple[Any, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: describe(t, (*within, kind)) for name, t, _ in _fields(kind)},
        "required": [name for name, _, required in _fields(kind) if required],
    }


def _read_literal(among: tuple[object, ...], value: object, where: str) -> object:
    if value not in among:
        raise ValueError(f"{where} is {value!r}, not one of {', '.join(map(repr, among))}")
    return value


def _read_scalar(kind: type, value: object, where: str) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{where} is {value!r}, not of type {NAMES[kind]}")
    return value


def _expect(kind: type, value: object, where: str, name: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{where} is {type(value).__name__}, not {name}")
    return value
