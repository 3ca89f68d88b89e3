"""A zip file as torch writes it: its entries are uncompressed, so that parts can be read alone."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from msd.conversion.sources.stored import StoredFile, stamp_of, unreadable

KIND = "torch checkpoint"
LONGEST_DIRECTORY = 8 << 20
"""Bytes; the directory of a Stable Diffusion checkpoint has some 200 kB."""

LONGEST_ENTRY_IN_MEMORY = 32 << 20
LOCAL_HEADER = struct.Struct("<4s5H3I2H")
CHUNK = 1 << 20
"""Bytes that a checksum reads at once."""


@dataclass(frozen=True)
class ArchiveEntry:
    """An entry of `size` bytes at `begin`, with its `header` before them; `crc` is 0 without a checksum."""

    name: str
    header: int
    begin: int
    size: int
    crc: int


@dataclass(frozen=True)
class Archive:
    """The entries of a zip file by name, without the folder that contains them all."""

    file: StoredFile
    entries: dict[str, ArchiveEntry]

    def entry(self, name: str) -> ArchiveEntry:
        """Return an entry; raises BadCheckpoint if none has that name."""
        if name not in self.entries:
            raise self.file.wrong(f"it has no entry {name}")
        return self.entries[name]

    def read(self, name: str) -> bytes:
        """Return the bytes of a small entry; raises BadCheckpoint if it is large, damaged or has changed."""
        entry = self.entry(name)
        if entry.size > LONGEST_ENTRY_IN_MEMORY:
            raise self.file.wrong(
                f"its {name} of {entry.size} bytes is larger than {LONGEST_ENTRY_IN_MEMORY}"
            )
        self.check(entry)
        return self.file.read(name, entry.begin, entry.size).tobytes()

    def check(self, entry: ArchiveEntry) -> None:
        """Raise BadCheckpoint if an entry's bytes do not match its checksum; reads a chunk at a time."""
        crc = 0
        for at in range(0, entry.size if entry.crc else 0, CHUNK):
            size = min(CHUNK, entry.size - at)
            crc = zlib.crc32(self.file.read(entry.name, entry.begin + at, size), crc)
        if crc != entry.crc:
            raise self.file.wrong(f"its {entry.name} is damaged: its checksum is not that of its bytes")


def open_archive(path: Path) -> Archive:
    """Return the entries of a zip file; reads only its directory.

    Raises BadCheckpoint for a file that is not a zip file, is truncated, or has compressed or overlapping
    entries.
    """
    try:
        with _Bounded(path) as raw:
            file = StoredFile(path, KIND, stamp_of(raw))
            with zipfile.ZipFile(raw) as archive:
                infos = archive.infolist()
            if not any(info.filename.endswith(("data.pkl", "version")) for info in infos):
                raise unreadable(path, KIND, "torch wrote nothing in this zip file; unpack it")
            entries = [_entry(file, raw, info) for info in infos if not info.filename.endswith("/")]
    except OSError as error:
        raise unreadable(path, KIND, f"it cannot be read ({error.strerror})") from error
    except (
        zipfile.BadZipFile,
        ValueError,
        NotImplementedError,
        OverflowError,
        struct.error,
        EOFError,
    ) as error:
        raise unreadable(path, KIND, f"it is not a complete zip file ({error})") from error
    _require_disjoint(file, entries)
    by_name = {entry.name.partition("/")[2]: entry for entry in entries}
    if len(by_name) != len(entries):
        raise file.wrong("two of its entries have the same name")
    return Archive(file, by_name)


class _Bounded(io.FileIO):
    """A file that limits each read to the size of a directory, which zipfile reads as a whole."""

    def read(self, size: int | None = -1, /) -> Any:
        bound = LONGEST_DIRECTORY + 1 if size is None or size < 0 else min(size, LONGEST_DIRECTORY + 1)
        read = super().read(bound)
        if read is not None and len(read) > LONGEST_DIRECTORY:
            raise zipfile.BadZipFile(f"its directory is larger than {LONGEST_DIRECTORY} bytes")
        return read


def _entry(file: StoredFile, raw: _Bounded, info: zipfile.ZipInfo) -> ArchiveEntry:
    """Return an entry with the position of its bytes, which only its local header gives."""
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 1:
        raise file.wrong(f"its {info.filename} is compressed or encrypted, which torch.save never does")
    raw.seek(info.header_offset)
    signature, *_, names, extra = LOCAL_HEADER.unpack(raw.read(LOCAL_HEADER.size))
    if signature != b"PK\x03\x04":
        raise file.wrong(f"its {info.filename} is not where its directory says")
    begin = info.header_offset + LOCAL_HEADER.size + names + extra
    return ArchiveEntry(
        name=info.filename, header=info.header_offset, begin=begin, size=info.file_size, crc=info.CRC
    )


def _require_disjoint(file: StoredFile, entries: list[ArchiveEntry]) -> None:
    """Refuse entries that overlap, including their headers, or that exceed the end of the file."""
    spans = sorted((entry.header, entry.begin + entry.size, entry.name) for entry in entries)
    for (_, end, _), (start, _, name) in pairwise(spans):
        if start < end:
            raise file.wrong(f"its {name} overlaps the entry before it")
    if spans and spans[-1][1] > file.size:
        raise file.wrong(f"its {spans[-1][2]} exceeds the end of the file")
