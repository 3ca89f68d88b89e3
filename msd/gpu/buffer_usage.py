"""What a buffer is for: GPUBufferUsage, as the standard has it."""

from __future__ import annotations

FLAGS = {
    "MAP_READ": 1,
    "MAP_WRITE": 2,
    "COPY_SRC": 4,
    "COPY_DST": 8,
    "UNIFORM": 64,
    "STORAGE": 128,
    "QUERY_RESOLVE": 512,
}


def usage(*names: str) -> int:
    """Return the flags of these uses together."""
    return sum(FLAGS[name] for name in names)
