"""Reuses the files of an earlier conversion into the same folder, and refuses to overwrite others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
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
from msd.conversion.settings import Settings
from msd.conversion.sources.binding import some
from msd.conversion.sources.diffusers import TOKENIZER_FILES
from msd.errors import BadBundle, OutputExists, OutputUnwritable
from msd.files.disk import real_place
from msd.files.publication import contents
from msd.files.schema import to_json
from msd.files.unwritable import raises_unwritable
from msd.files.wording import counted, listed
from msd.models.families import find_family
from msd.run.runtime.scheduler import name_of

REPLACE = "give another folder, or --force to replace it"

PREDICTION = "prediction_type"

FROM_INTERFACE = "time_embeddings"
"""The setting of a manifest that another one, the interface, decides."""

UNNAMED = {
    "spelling": "the spelling standard",
    "attention": "attention products",
    "interface": "msd's own interface",
}
"""What a manifest means by settings that it does not have."""


def refuse_unrelated(out: Path, force: bool) -> None:
    """Raise OutputExists where `out` has contents that msd did not write, unless `force`.

    Raises OutputUnwritable for a folder that this user may not read.
    """
    if out.exists() and not out.is_dir():
        raise OutputExists(f"{out} is a file; give a folder to write to")
    with raises_unwritable(out, out):
        is_foreign = out.is_dir() and contents(out) and not (out / MANIFEST).is_file()
    if is_foreign and not force:
        raise OutputExists(f"{out} is not empty and not a converted bundle; give another folder, or --force")


def refuse_source(source: Path, out: Path) -> None:
    """Raise OutputExists where `out` is the checkpoint itself, whose files would be replaced."""
    if source.is_dir() and real_place(source) == real_place(out):
        raise OutputExists(f"{out} is the checkpoint to convert; give another folder to write to")


def load_previous(out: Path, force: bool) -> Manifest | None:
    """Return the manifest of an earlier conversion, or None; raises OutputExists for a damaged one."""
    if not (out / MANIFEST).is_file():
        return None
    try:
        return load_manifest(out / MANIFEST)
    except BadBundle as problem:
        if force:
            return None
        raise OutputExists(f"{problem}; {REPLACE}") from problem


def stamp(out: Path) -> tuple[int, int] | None:
    """Return what changes with every manifest that is written to `out`; None where there is none."""
    try:
        facts = (out / MANIFEST).stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns


def require_unchanged(out: Path, before: tuple[int, int] | None) -> None:
    """Raise OutputUnwritable where another run has written a manifest to `out` since its stamp `before`."""
    if stamp(out) != before:
        raise OutputUnwritable(f"another run has just written {out}; run again if that is still wanted")


def unowned(out: Path, previous: Manifest | None, written: Collection[str]) -> Iterator[str]:
    """Yield a sentence where `out` has files that stay beside the `written` ones, and no manifest names."""
    if previous is not None or not out.is_dir():
        return
    own = {name.partition("/")[0] for name in written}
    if left := [path.name for path in contents(out) if path.name not in own]:
        yield f"{some(left)} in {out} stay as they are: no {MANIFEST} that can be read says what wrote them"


def stale_files(previous: Manifest | None, manifest: Manifest) -> list[str]:
    """Return the files of an earlier conversion that are not of the new manifest's.

    Those of tokenizers are among them, whatever the new ones have, which are written in any case: they are
    read without a manifest that names them.
    """
    kept = [] if previous is None else [previous]
    named = {file for each in kept for file in _named(each)} - {*_named(manifest)}
    folders = {folder for each in (*kept, manifest) for folder in find_family(each.family).tokenizers}
    return [*named, *(f"{folder}/{file}" for folder in folders for file in TOKENIZER_FILES)]


def removed_networks(previous: Manifest | None, manifest: Manifest) -> list[str]:
    """Return the files of an earlier conversion's networks that the new manifest does not name."""
    files = {part.file for part in manifest.components.values()}
    before = previous.components.values() if previous else ()
    return [part.file for part in before if part.file not in files]


def _named(manifest: Manifest) -> list[str]:
    """Return the files that a manifest names."""
    table = manifest.configuration.time_embeddings
    return [*(part.file for part in manifest.components.values()), *([table] if table else [])]


def remarked(old: Manifest | None, new: Manifest, settings: Settings, said: Iterable[str]) -> Manifest:
    """Return `new` with the remarks `said` of its conversion, those on its files, and what images lost by it.

    `old` is the folder's manifest before this conversion, and `new` may be the same.
    """
    of_files = (remark for each in new.ledger.values() for remark in each.remarks)
    remarks = (*said, *of_files, *_reverted(old, new, settings))
    return replace(new, conversion=replace(new.conversion, remarks=remarks))


def _reverted(old: Manifest | None, new: Manifest, settings: Settings) -> Iterator[str]:
    """Yield a sentence where options of the conversion before decided what images are, and are not given now.

    `old` is the folder's manifest before this conversion, if there was one, and `new` that after it.
    """
    if old is None or not _is_same_checkpoint(old.source, new.source):
        return
    named = settings.scheduler is not None
    before, now = old.scheduler, new.scheduler
    parts = [
        ("--scheduler", named, _scheduler(before, now), _scheduler(now, before)),
        ("--prediction-type", settings.prediction_type, _predicted(before), _predicted(now)),
        ("--steps", named or settings.steps, _steps(old), _steps(new)),
        (
            "--guidance",
            named or settings.guidance is not None,
            f"guidance {old.images.guidance:g}",
            f"guidance {new.images.guidance:g}",
        ),
    ]
    if lost := [each for each in parts if not each[1] and each[2] != each[3]]:
        options, _, was, became = zip(*lost, strict=True)
        yield (
            f"images had {listed(was)}; without {listed(options)} they now have the model's own:"
            f" {listed(became)}"
        )


def _steps(manifest: Manifest) -> str:
    return counted(manifest.images.steps, "step")


def _predicted(config: Mapping[str, Any]) -> str:
    return f"the prediction type {config.get(PREDICTION, 'epsilon')}"


def _scheduler(config: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the name of a scheduler; if `other` has the same, with the settings that differ."""
    name = f"the scheduler {name_of(config)}"
    if name_of(config) != name_of(other):
        return name
    ours = {key: value for key, value in config.items() if key not in ("_class_name", PREDICTION)}
    differing = [f"{key} = {value}" for key, value in ours.items() if other.get(key) != value]
    return f"{name} with {', '.join(differing)}" if differing else name


def reusable_files(job: Job, out: Path, old: Manifest, source: Source) -> dict[str, ConvertedFile]:
    """Return the files of `old` in the folder `out` that stay, by name; `source` is the source of the job.

    Components of the job that are complete stay, and so do other components of the same checkpoint. Raises
    OutputExists where anything else would be overwritten, unless forced.
    """
    configuration, force = configuration_of(job), job.settings.force
    compatible = _is_compatible(old, source, configuration)
    if not compatible and not force:
        raise OutputExists(f"{out} holds {_difference(old, source, configuration)}; {REPLACE}")
    if not compatible:
        return {}
    component = {name: job.family.component_of(name).name for name in old.components}
    others = {name: file for name, file in old.components.items() if component[name] not in job.components}
    if force:
        return others
    complete = {name: file for name, file in old.components.items() if name not in others}
    expected = fingerprints(job, source)
    for name, file in complete.items():
        _require_same(out, file, expected[component[name]])
    return others | complete


def _is_compatible(old: Manifest, source: Source, configuration: Configuration) -> bool:
    """Return whether the components of `old` and new ones form one bundle."""
    before, now = (replace(each, components={}) for each in (old.configuration, configuration))
    parts = to_json(configuration.components)
    added = parts == {**parts, **to_json(old.configuration.components)}
    return before == now and added and _is_same_checkpoint(old.source, source)


def _is_same_checkpoint(old: Source, new: Source) -> bool:
    """Return whether the files of `old` are unchanged; the folder may have a new name, or more files."""
    same = all(new.files.get(name) == file for name, file in old.files.items())
    made = [(source.kind, source.adapters, source.embeddings) for source in (old, new)]
    return same and made[0] == made[1]


def _difference(old: Manifest, source: Source, configuration: Configuration) -> str:
    """Return in words how `old` differs from this conversion."""
    if old.source.adapters != source.adapters:
        merged = ", ".join(f"{adapter.file} at {adapter.scale:g}" for adapter in old.source.adapters)
        return f"a conversion with {merged or 'no LoRA'} merged into the weights"
    if old.source.embeddings != source.embeddings:
        tokens = ", ".join(f"{each.tokens[0]} of {each.file}" for each in old.source.embeddings)
        return f"a conversion with the embeddings {tokens or '(none)'}"
    if old.configuration.controls != configuration.controls:
        return f"a conversion with the ControlNets {', '.join(old.configuration.controls) or '(none)'}"
    if old.configuration.fused_controls != configuration.fused_controls:
        return f"a conversion with{'' if old.configuration.fused_controls else 'out'} --fuse-control"
    same = _is_same_checkpoint(old.source, source)
    if not same and old.source.replaced != source.replaced:
        others = ", ".join(dict.fromkeys(file for files in old.source.replaced.values() for file in files))
        if not old.source.replaced.keys() <= source.replaced.keys():
            return f"a conversion with {others}, and this one does not name all of that again"
        return f"a conversion with {others or 'nothing'} in place of the checkpoint's own weights"
    if not same:
        return f"a conversion of another checkpoint ({old.source.name})"
    before, now = to_json(old.configuration), to_json(configuration)
    keys = (k for k in before | now if before.get(k) != now.get(k) and k != FROM_INTERFACE)
    other = ", ".join(_phrase(key, before.get(key)) for key in keys)
    return f"another conversion of this checkpoint ({other})"


def _phrase(key: str, value: Any) -> str:
    if key == "vae_tile":
        return f"tiles of {value} pixels" if value else "the autoencoder for whole images"
    if key == "split":
        return "the U-Net in two files" if value else "the U-Net in one file"
    if key in UNNAMED and not value:
        return UNNAMED[key]
    if key == "sizes":
        return listed(f"{size['width']}x{size['height']}" for size in value or ()) or "one size"
    if key != "recipe":
        return f"{key} {value}"
    return f"recipe {value['name']}, SHA-256 {value['sha256'][:12]}…"


def _require_same(out: Path, part: ConvertedFile, fingerprint: str) -> None:
    """Refuse to overwrite a file that differs from the one to be written."""
    path = out / part.file
    if not path.is_file():
        raise OutputExists(f"{path} is missing, though {MANIFEST} lists it; use --force to write it again")
    facts = file_facts(path)
    if (facts.sha256, facts.bytes) != (part.sha256, part.bytes):
        raise OutputExists(f"{path} is not as msd-convert wrote it; {REPLACE}")
    if part.made_from != fingerprint:
        raise OutputExists(
            f"{path} was made by another msd, or with other rewrites, pruning or rounding; {REPLACE}"
        )
