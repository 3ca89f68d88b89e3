"""Make the LiteRT runtime log how it partitions a graph.

Only the line "Replacing X out of Y node(s) …" confirms that operations moved to a delegate, and it appears at
TensorFlow Lite's verbose level. The Python package has no option and no environment variable for that level,
but its library has a symbol table: the level's address is looked up there, and the level lowered.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

LIBRARY = "libpywrap_litert_common.so"
SYMBOL = b"_ZN6tflite16logging_internal13MinimalLogger21minimum_log_severity_E"
VERBOSE, SILENT = 0, 4
SYMTAB = 2


def log_partitions() -> bool:
    """Lower this process's TensorFlow Lite log level to verbose; returns whether that succeeded."""
    import ai_edge_litert
    import ai_edge_litert.compiled_model

    library = Path(ai_edge_litert.__file__).parent / LIBRARY
    base = _base(library)
    offset = _offset(library) if library.is_file() else None
    if base is None or offset is None:
        return False
    severity = ctypes.c_int32.from_address(base + offset)
    if not VERBOSE <= severity.value <= SILENT:
        return False
    severity.value = VERBOSE
    return True


def _base(library: Path) -> int | None:
    """Return the address at which this process has mapped the start of `library`."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and int(fields[2], 16) == 0 and Path(fields[5]).name == library.name:
            return int(fields[0].partition("-")[0], 16)
    return None


def _offset(library: Path) -> int | None:
    """Return the offset of the level from the library's start, from its ELF64 symbol table."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as elf:
        sections = list(_sections(elf))
        for section in sections:
            if section[1] == SYMTAB:
                name = elf.find(b"\0" + SYMBOL + b"\0", sections[section[6]][4])
                if name >= 0:
                    return _value(elf, section, name + 1 - sections[section[6]][4])
    return None


def _sections(elf: mmap.mmap) -> Iterator[tuple[int, ...]]:
    """Yield (name, type, flags, address, offset, size, link, info, alignment, entry size) of each section."""
    (start,) = struct.unpack_from("<Q", elf, 40)
    size, count, _ = struct.unpack_from("<HHH", elf, 58)
    for i in range(count):
        yield struct.unpack_from("<IIQQQQIIQQ", elf, start + i * size)


def _value(elf: mmap.mmap, symtab: tuple[int, ...], name: int) -> int | None:
    """Return the value of the four-byte symbol whose name is at offset `name` of the string table."""
    for at in range(symtab[4], symtab[4] + symtab[5], 24):
        symbol, _, _, _, value, size = struct.unpack_from("<IBBHQQ", elf, at)
        if symbol == name and size == 4:
            return int(value)
    return None
