"""JSON files as frozen dataclasses, and their JSON Schema.

The dataclass alone defines a format: `read` checks parsed JSON against it and names the place of an error,
`describe` derives the JSON Schema for other programs.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import typing
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar

from msd.errors import MsdError
from msd.files import bounded

DRAFT = "https://json-schema.org/draft/2020-12/schema"
INLINE = {"inline": True}
"""The metadata of a field, a dict of dicts, whose items stand in the file beside the other fields."""

UNLESS_EMPTY = {"unless_empty": True}
"""Metadata of a field that JSON leaves out where it is empty."""

COMPUTED = "COMPUTED"
"""The class variable in which a dataclass names properties that JSON holds beside its fields.

They are for other programs: `read` computes them anew.
"""

NAMES: dict[type, str] = {int: "integer", float: "number", str: "string", bool: "boolean"}


T = TypeVar("T")


def require(wrong: type[MsdError], kind: type[T], path: Path, newest: int, what: str, oldest: int = 1) -> T:
    """Return what `load` returns; raises `wrong`, in a sentence, where that raises an error."""
    try:
        return load(kind, path, newest, what, oldest)
    except OSError as problem:
        raise wrong(f"cannot read {path} ({problem.strerror})") from problem
    except ValueError as problem:
        raise wrong(str(problem)) from problem


def load(kind: type[T], path: Path, newest: int, what: str, oldest: int = 1) -> T:
    """Return the JSON file at `path` as `kind`, a dataclass with a `format` from `oldest` to `newest`.

    `what` names the kind of file in messages. Raises OSError; ValueError for a file that is not JSON, has
    another format, or does not fit `kind`.
    """
    try:
        value = bounded.read_json(path)
    except ValueError as problem:
        raise ValueError(f"{path} is not JSON: {problem}") from problem
    version = value.get("format") if isinstance(value, dict) else None
    if isinstance(version, int) and version != newest and _is_another(kind, value):
        raise ValueError(f"{path} is not {what}: it has other fields")
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
        return typing.cast(T, read(kind, value, path.name))
    except ValueError as problem:
        raise ValueError(f"{path} is not {what}: {problem}") from problem


def _is_another(kind: type, value: dict[str, Any]) -> bool:
    """Whether a file says what no version of `kind` says: it has fields, and none of its own."""
    own = {name for name, _, _ in _fields(kind)} - {"format", "msd"}
    return bool({*value} - {"format", "msd"}) and not own & {*value}


def dump(value: Any) -> str:
    """Return a dataclass as the JSON text that `load` reads, its `format` first, with a final newline.

    What UTF-8 cannot hold, such as a path of other bytes, is escaped.
    """
    fields = to_json(value)
    text = json.dumps({"format": fields.pop("format"), **fields}, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def to_json(value: Any) -> Any:
    """Return a dataclass, or what may stand in one, as objects, lists and scalars of JSON.

    JSON has no infinity, for which the largest number stands, and no NaN, for which null does.
    """
    if dataclasses.is_dataclass(value):
        items: dict[str, Any] = {}
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            if field.metadata == INLINE:
                items |= to_json(item)
            elif item or field.metadata != UNLESS_EMPTY:
                items[field.name] = to_json(item)
        return items | {name: to_json(getattr(value, name)) for name in _computed(value.__class__)}
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else math.copysign(sys.float_info.max, value)
    return [to_json(item) for item in value] if isinstance(value, list | tuple) else value


def document(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of files of `kind`, including the draft that it follows."""
    return {"$schema": DRAFT, **describe(kind)}


def read(kind: Any, value: object, where: str) -> Any:
    """Return parsed JSON as `kind`: a dataclass, tuple[T, ...], dict[str, T], T | None, Literal, scalar, Any.

    Ignores keys that `kind` lacks, so that a later version may add some. Raises ValueError with a sentence
    that names the place, starting from `where`.
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


@cache
def _fields(kind: type) -> list[tuple[str, Any, bool]]:
    """Return each field's name, its type, and whether it is required."""
    types = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    return [
        (f.name, types[f.name], f.default is missing and f.default_factory is missing)
        for f in dataclasses.fields(kind)
        if f.metadata != INLINE
    ]


@cache
def _computed(kind: type) -> dict[str, Any]:
    """Return the types of the properties that JSON holds, by name."""
    names: tuple[str, ...] = getattr(kind, COMPUTED, ())
    return {name: typing.get_type_hints(getattr(kind, name).fget)["return"] for name in names}


@cache
def _inline(kind: type) -> tuple[str, Any] | None:
    """Return the name and item type of the field whose items stand beside the others, if there is one."""
    types = typing.get_type_hints(kind)
    named = [f.name for f in dataclasses.fields(kind) if f.metadata == INLINE]
    return (named[0], typing.get_args(types[named[0]])[1]) if named else None


def _read_object(kind: Callable[..., Any], value: object, where: str) -> Any:
    items = _expect(dict, value, where, "an object")
    expected = _fields(typing.cast(type, kind))
    for name, _, required in expected:
        if required and name not in items:
            raise ValueError(f"{where} lacks {name!r}")
    values = {name: read(t, items[name], f"{where}.{name}") for name, t, _ in expected if name in items}
    if inline := _inline(typing.cast(type, kind)):
        others = {key: item for key, item in items.items() if key not in values and isinstance(item, dict)}
        values[inline[0]] = {key: read(inline[1], item, f"{where}.{key}") for key, item in others.items()}
    return kind(**values)


def _describe_object(kind: type, within: tuple[Any, ...]) -> dict[str, Any]:
    types = {name: t for name, t, _ in _fields(kind)} | _computed(kind)
    described: dict[str, Any] = {
        "type": "object",
        "properties": {name: describe(t, (*within, kind)) for name, t in types.items()},
        "required": [*(name for name, _, required in _fields(kind) if required), *_computed(kind)],
    }
    if inline := _inline(kind):
        described["additionalProperties"] = describe(inline[1])
    return described


def _read_literal(choices: tuple[object, ...], value: object, where: str) -> object:
    if value not in choices:
        raise ValueError(f"{where} is {value!r}, not one of {', '.join(map(repr, choices))}")
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
