"""What of an earlier conversion into the same folder can stay as it is, and what must not be overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msd.bundle import (
    MANIFEST,
    Configuration,
    ConvertedFile,
    Manifest,
    Source,
    file_facts,
    load_manifest,
)
from msd.conversion.job import Job
from msd.conversion.manifest import configuration_of, fingerprints
from msd.errors import BadBundle, OutputExists
from msd.files.schema import to_json

REPLACE = "give another folder, or --force to replace it"


def refuse_foreign(out: Path, force: bool) -> None:
    """Raise OutputExists where `out` holds what msd did not write and what it may not add to."""
    if out.exists() and not out.is_dir():
        raise OutputExists(f"{out} is a file; give a folder to write to")
    if not force and out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).is_file():
        raise OutputExists(f"{out} is not empty and not a converted bundle; give another folder, or --force")


def earlier(out: Path, force: bool) -> Manifest | None:
    """Return what an earlier conversion wrote to `out`, or None; raises OutputExists for a damaged one."""
    if not (out / MANIFEST).is_file():
        return None
    try:
        return load_manifest(out / MANIFEST)
    except BadBundle as problem:
        if force:
            return None
        raise OutputExists(f"{problem}; {REPLACE}") from problem


def kept(job: Job, out: Path, old: Manifest, source: Source) -> dict[str, ConvertedFile]:
    """Return the files of `old` in the folder `out` that stay, by name; `source` is what the job reads.

    Components of the job that are finished already stay, and so do others of the same checkpoint. Raises
    OutputExists where something else would be overwritten unasked.
    """
    configuration, force = configuration_of(job), job.settings.force
    alike = _alike(old, source, configuration)
    if not alike and not force:
        raise OutputExists(f"{out} holds {_difference(old, source, configuration)}; {REPLACE}")
    if not alike:
        return {}
    component = {name: job.family.component_of(name).name for name in old.components}
    others = {name: file for name, file in old.components.items() if component[name] not in job.components}
    if force:
        return others
    finished = {name: file for name, file in old.components.items() if name not in others}
    wanted = fingerprints(job, source)
    for name, file in finished.items():
        _require_same(out, file, wanted[component[name]])
    return others | finished


def _alike(old: Manifest, source: Source, configuration: Configuration) -> bool:
    """Whether the components of `old` and new ones make one bundle."""
    return _same_checkpoint(old.source, source) and to_json(old.configuration) == to_json(configuration)


def _same_checkpoint(old: Source, new: Source) -> bool:
    """Whether all that `old` was made of is the same now: a folder may have been renamed, or have more."""
    same = all(new.files.get(name) == file for name, file in old.files.items())
    return same and (old.kind, old.adapters) == (new.kind, new.adapters)


def _difference(old: Manifest, source: Source, configuration: Configuration) -> str:
    """Return in words what `old` is and this conversion is not."""
    if old.source.adapters != source.adapters:
        merged = ", ".join(f"{adapter.file} at {adapter.scale:g}" for adapter in old.source.adapters)
        return f"a conversion with {merged or 'no LoRA'} merged into the weights"
    if not _same_checkpoint(old.source, source):
        return f"a conversion of another checkpoint ({old.source.name})"
    before, now = to_json(old.configuration), to_json(configuration)
    other = ", ".join(_said(key, before[key]) for key in before if before[key] != now.get(key))
    return f"another conversion of this checkpoint ({other})"


def _said(key: str, value: Any) -> str:
    if key != "recipe":
        return f"{key} {value}"
    return f"recipe {value['name']}, SHA-256 {value['sha256'][:12]}…"


def _require_same(out: Path, part: ConvertedFile, wanted: str) -> None:
    """Refuse to overwrite a file that is not what would be written now."""
    path = out / part.file
    if not path.is_file():
        raise OutputExists(f"{path} is missing, though {MANIFEST} lists it; use --force to write it again")
    facts = file_facts(path)
    if (facts.sha256, facts.bytes) != (part.sha256, part.bytes):
        raise OutputExists(f"{path} is not as msd-convert wrote it; {REPLACE}")
    if part.made_from != wanted:
        raise OutputExists(f"{path} was made by another msd, or with other rewrites; {REPLACE}")
