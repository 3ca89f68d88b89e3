"""Text, JSON, TOML and YAML of untrusted files, read within bounds that no file of use comes near.

Length, depth, number of values and digits are bounded before anything is parsed, so that time and memory stay
linear in the file. Every function raises OSError, or ValueError with a clause that says which bound it was.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

TEXT_BYTES = 32 << 20
"""The longest text or JSON; a tokenizer has some 3 MB, a manifest less."""

TOML_BYTES = 1 << 20
"""The longest TOML or YAML."""

VALUES = 1_000_000
"""The most values of one JSON or TOML text; a tokenizer has some 100,000."""

DEPTH = 64
DIGITS = 1000
"""The most digits of a number in the text; an integer of more than `BITS` is refused by name."""

BITS = 128
"""Of an integer: transformers writes 10^30 for a length without limit."""

KEY_PARTS = 32
"""The most parts of a dotted key of TOML, whose parser takes the square of their number."""

JSON_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
TOML_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5})?|\'\'\'(?:[^\']|\'(?!\'\'))*+(?:\'{3,5})?'
    r'|"(?:[^"\\\n]|\\.)*+"?|\'[^\'\n]*+\'?|#[^\n]*+',
    re.DOTALL,
)
NUMBER = re.compile("[0-9]++")
NO_BRACKETS = re.compile(r"[^\[\]{}]++")
DOTTED = re.compile(r"[^\n,=\[\]{}]*+")
ObjectHook = Callable[[list[tuple[str, Any]]], Any]
_Keys = tuple[Any, ...]


def read_text(path: Path, most: int = TEXT_BYTES) -> str:
    """Return a UTF-8 text of at most `most` bytes, without the mark that some editors begin it with."""
    return decode(read_bytes(path, most), most)


def decode(content: bytes, most: int = TEXT_BYTES) -> str:
    """Return a UTF-8 text of at most `most` bytes, without the mark that some editors begin it with."""
    if len(content) > most:
        raise ValueError(f"it is longer than {most} bytes")
    return content.decode("utf-8-sig")


def read_bytes(path: Path, most: int = TEXT_BYTES) -> bytes:
    """Return the content of a file of at most `most` bytes."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it is longer than {most} bytes")
    return content


def read_json(path: Path) -> Any:
    """Return what the JSON file at `path` holds, as `parse_json` does."""
    return parse_json(read_text(path))


def parse_json(text: str, pairs: ObjectHook | None = None) -> Any:
    """Return what a JSON text holds: no NaN, no integer beyond `BITS`, no text that is not Unicode.

    `pairs` makes an object of its pairs, as for `json.loads`.
    """
    if len(text) > TEXT_BYTES:
        raise ValueError(f"it is longer than {TEXT_BYTES} characters")
    _require_modest(JSON_STRING.sub('""', text))
    value = json.loads(text, object_pairs_hook=pairs, parse_constant=_constant)
    _require_plain(value)
    return value


def read_toml(path: Path) -> dict[str, Any]:
    """Return the TOML file at `path`, with the same bounds on its values as `parse_json`."""
    return parse_toml(read_text(path, TOML_BYTES))


def parse_toml(text: str) -> dict[str, Any]:
    """Return what a TOML text holds, with the same bounds on its values as `parse_json`."""
    if len(text) > TOML_BYTES:
        raise ValueError(f"it is longer than {TOML_BYTES} characters")
    bare = TOML_STRING.sub("''", text)
    _require_modest(bare)
    if any(key.count(".") >= KEY_PARTS for key in DOTTED.findall(bare)):
        raise ValueError(f"a key has more than {KEY_PARTS} parts")
    table = tomllib.loads(text)
    _require_plain(table)
    return table


def read_yaml(path: Path) -> Any:
    """Return what the YAML file at `path` holds, as `parse_yaml` does."""
    return parse_yaml(read_text(path, TOML_BYTES))


def parse_yaml(text: str) -> Any:
    """Return what a YAML text holds, with the same bounds on its values as `parse_json`, without aliases."""
    import yaml  # late: one kind of checkpoint has such a file

    if len(text) > TOML_BYTES:
        raise ValueError(f"it is longer than {TOML_BYTES} characters")
    try:
        _require_shallow(yaml.parse(text, yaml.SafeLoader))
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    _require_plain(value)
    return value


def _require_shallow(events: Iterable[Any]) -> None:
    """Refuse a YAML text that is too deep, or has aliases, by which it could be endless."""
    import yaml

    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("it has aliases, which are not read")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH:
            raise ValueError(f"it is nested more than {DEPTH} deep")


def _constant(name: str) -> float:
    """Return an infinity, as diffusers writes for a limit that there is not; refuse NaN."""
    if name == "NaN":
        raise ValueError("it has NaN, which is not a number")
    return float(name)


def _require_modest(bare: str) -> None:
    """Refuse a text, whose strings are empty, that is too deep, or has too many values or digits."""
    if sum(map(bare.count, "[{,")) > VALUES:
        raise ValueError(f"it has more than {VALUES} values")
    if _depth(bare) > DEPTH:
        raise ValueError(f"it is nested more than {DEPTH} deep")
    if any(found.end() - found.start() > DIGITS for found in NUMBER.finditer(bare)):
        raise ValueError(f"it has a number of more than {DIGITS} digits")


def _depth(bare: str) -> int:
    """Return how deep a text is nested, until it closes what it has not opened, which no parser takes."""
    depth = most = 0
    for bracket in NO_BRACKETS.sub("", bare):
        depth += 1 if bracket in "[{" else -1
        if depth < 0:
            break
        most = max(most, depth)
    return most


def _require_plain(root: Any) -> None:
    """Refuse a value in `root` that could not be written, or computed with, and name its place."""
    if wrong := _wrong(root):
        raise ValueError(f"it is {wrong}")
    stack: list[tuple[Any, _Keys]] = [(root, ())]
    while stack:
        within, keys = stack.pop()
        for key, value in _items(within):
            if isinstance(key, str) and (wrong := _wrong(key)):
                raise ValueError(f"a key of {_place(keys)} is {wrong}")
            if wrong := _wrong(value):
                raise ValueError(f"its {_place((*keys, key))} is {wrong}")
            if isinstance(value, dict | list):
                stack.append((value, (*keys, key)))


def _place(keys: _Keys) -> str:
    return ".".join(map(str, keys)) or "it"


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _wrong(value: Any) -> str | None:
    """Return what is wrong with a scalar, None where nothing is."""
    if isinstance(value, str):
        return None if value.isascii() or not _has_surrogate(value) else "text that is not Unicode"
    if isinstance(value, int) and value.bit_length() > BITS:
        return f"an integer of {value.bit_length()} bits, and at most {BITS} are read"
    return None


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
