"""The folder of an export, written atomically, with a list of the files that the export wrote.

require_free(out, force)
with exporting(out) as staging:
    ...                                     # write to staging
    finish(staging, out, "android", model)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from msd.errors import OutputExists
from msd.files import schema
from msd.files.atomic import raises_unwritable
from msd.files.staging import publish, staged

NOTE = "sd-export.json"
FORMAT = 1


@dataclass(frozen=True)
class ExportNote:
    """The content of sd-export.json: `files` are paths in the folder, `model` is the bundle's hash."""

    platform: str
    model: str
    files: tuple[str, ...]
    format: int = FORMAT


def require_free(out: Path, force: bool) -> None:
    """Raise OutputExists for a file, and without `force` for a folder that is not empty."""
    if out.exists() and not out.is_dir():
        raise OutputExists(f"{out} is a file; give a folder to write to")
    if force or not out.is_dir() or not any(out.iterdir()):
        return
    if (out / NOTE).is_file():
        raise OutputExists(f"{out} is an earlier export; --force replaces it, including your changes")
    raise OutputExists(f"{out} is not empty and not an export; give another folder, or --force")


@contextmanager
def exporting(out: Path) -> Iterator[Path]:
    """Yield an empty folder beside `out` for the export's files; raises OutputUnwritable on a full disk."""
    with staged(out) as staging, raises_unwritable(out, staging):
        yield staging


def finish(staging: Path, out: Path, platform: str, model: str) -> None:
    """Move all files of `staging` to `out`, and remove those of an earlier export that this one lacks."""
    new = {path.relative_to(staging).as_posix() for path in staging.rglob("*") if path.is_file()}
    stale = _files(out) - new
    (staging / NOTE).write_text(schema.dump(ExportNote(platform, model, tuple(sorted(new)))))
    publish(staging, out, NOTE)
    for name in sorted(stale):
        _remove(out, PurePosixPath(name))


def _files(out: Path) -> set[str]:
    """Return the files in an earlier export's note; none where the note cannot be read."""
    try:
        note: ExportNote = schema.load(ExportNote, out / NOTE, FORMAT, "an export's note")
    except (OSError, ValueError):
        return set()
    return {name for name in note.files if not {"..", "/"} & set(PurePosixPath(name).parts)}


def _remove(out: Path, name: PurePosixPath) -> None:
    """Remove a file, and its parent folders that become empty."""
    with suppress(OSError):
        (out / name).unlink()
        for folder in list(name.parents)[:-1]:
            os.rmdir(out / folder)
