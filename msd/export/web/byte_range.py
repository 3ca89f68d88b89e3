"""The header Range of HTTP: which bytes of a file are asked for (RFC 9110, section 14)."""

from __future__ import annotations

import re
from dataclasses import dataclass

ONE_RANGE = re.compile(r"bytes=([0-9]{0,100})-([0-9]{0,100})", re.IGNORECASE)


class Unsatisfiable(ValueError):
    """None of the bytes that are asked for exist."""


@dataclass(frozen=True)
class ByteRange:
    """Bytes from `first` to before `end`, at least one."""

    first: int
    end: int


def parse_range(header: str, size: int) -> ByteRange | None:
    """Return the range that `header` asks for in a file of `size` bytes.

    None stands for the whole file, with which a server may answer several ranges and must answer what is no
    range. Raises Unsatisfiable.
    """
    match = ONE_RANGE.fullmatch(header.strip(" \t"))
    first, last = match.groups() if match else ("", "")
    if not first and not last:
        return None
    if not first:
        return _existing(max(0, size - int(last)), size)
    if last and int(last) < int(first):
        return None
    return _existing(int(first), min(size, int(last) + 1) if last else size)


def _existing(first: int, end: int) -> ByteRange:
    if first >= end:
        raise Unsatisfiable
    return ByteRange(first, end)
