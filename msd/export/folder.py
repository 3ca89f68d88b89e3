"""The folder of an export, written atomically, with a list of the files that the export wrote.

require_free(out, force)
with exporting(out, force) as staging:
    ...                                     # write to staging
    finish(staging, out, "android", model)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from msd.bundle import require_no_bundle
from msd.errors import OutputExists
from msd.files import schema
from msd.files.disk import require_space
from msd.files.publication import contents, publish, recover, staged
from msd.files.targets import require_targets
from msd.files.unwritable import raises_unwritable

NOTE = "sd-export.json"
FORMAT = 1


@dataclass(frozen=True)
class ExportNote:
    """The content of sd-export.json: `files` are paths in the folder, `model` is the bundle's hash.

    `settings` are those that another export of the same app should have too, such as the app's package.
    """

    platform: str
    model: str
    files: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT


def require_free(out: Path, force: bool) -> None:
    """Raise OutputExists for a file and a bundle, and without `force` for a folder that is not empty.

    First completes an export that was cut off while it replaced another.
    """
    if out.exists() and not out.is_dir():
        raise OutputExists(f"{out} is a file; give a folder to write to")
    recover(out)
    _require_free(out, force)


def _require_free(out: Path, force: bool) -> None:
    require_no_bundle(out)
    with raises_unwritable(out, out):
        if force or not out.is_dir() or not contents(out):
            return
    if (out / NOTE).is_file():
        raise OutputExists(f"{out} is an earlier export; --force replaces it, including your changes")
    raise OutputExists(f"{out} is not empty and not an export; give another folder, or --force")


@contextmanager
def exporting(out: Path, force: bool, needed: int = 0) -> Iterator[Path]:
    """Yield an empty folder on the disk of `out` for the files, which take about `needed` bytes.

    Raises OutputUnwritable for a disk with less room, and for one that is full before the end; and what
    `require_free` raises where another run has written to `out` since that was called.
    """
    require_targets(out, [NOTE])
    with staged(out) as staging, raises_unwritable(out, staging):
        _require_free(out, force)
        require_space(out, needed)
        yield staging


def finish(
    staging: Path, out: Path, platform: str, model: str, settings: Mapping[str, str | None] | None = None
) -> None:
    """Move all files of `staging` to `out`, and remove those of an earlier export that this one lacks.

    Those of `settings` that are not None are noted for `earlier_settings`.
    """
    new = {path.relative_to(staging).as_posix() for path in staging.rglob("*") if path.is_file()}
    stale = _files(out) - new
    said = {name: value for name, value in (settings or {}).items() if value is not None}
    note = ExportNote(platform, model, tuple(sorted(new)), said)
    (staging / NOTE).write_text(schema.dump(note), "utf-8")
    publish(staging, out, NOTE, stale)


def earlier_settings(out: Path, platform: str) -> dict[str, str]:
    """Return the settings of an earlier export of a platform to `out`; none where its note cannot be read."""
    note = _note(out)
    return note.settings if note and note.platform == platform else {}


def _files(out: Path) -> set[str]:
    """Return the files in an earlier export's note; none where the note cannot be read."""
    note = _note(out)
    return {name for name in note.files if _is_inside(name)} if note else set()


def _note(out: Path) -> ExportNote | None:
    try:
        return schema.load(ExportNote, out / NOTE, FORMAT, "an export's note")
    except (OSError, ValueError):
        return None


def _is_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and not {"..", "/"} & {*parts} and "\0" not in name
