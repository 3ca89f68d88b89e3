"""The checkpoint to convert, whose download comes after everything that can be refused without it."""

from __future__ import annotations

from pathlib import Path

from msd.bundle import MANIFEST, Manifest
from msd.conversion.reuse import load_previous, refuse_unrelated
from msd.conversion.settings import Settings
from msd.conversion.sources.hub import is_id, local_checkpoint
from msd.errors import BadCheckpoint
from msd.files.disk import real_place
from msd.files.names import require_text
from msd.files.publication import recover
from msd.files.targets import require_targets


def find_source(source: Path, settings: Settings, out: Path | None) -> Path:
    """Return `source`, or the folder of its download; `out` is the folder to write, None in a dry run.

    Raises what `local_checkpoint` and, before a download, `require_output` do, and BadCheckpoint for other
    files of the settings that are not there.
    """
    if is_id(source):
        _require_there(settings)
        if out is not None:
            require_output(out, settings)
    return local_checkpoint(source)


def require_output(out: Path, settings: Settings) -> Manifest | None:
    """Return the manifest of an earlier conversion to the folder `out`, None where there is none.

    Raises OutputUnwritable for a folder that cannot be written, OutputExists where something else would be
    overwritten and not `settings.force`, BadConfig for a calibration that cannot be read.
    """
    if settings.calibration:
        settings.calibration.facts()
    require_text(real_place(out))
    recover(out)
    refuse_unrelated(out, settings.force)
    previous = load_previous(out, settings.force)
    require_targets(out, (MANIFEST,))
    return previous


def _require_there(settings: Settings) -> None:
    added = [path for path, _ in (*settings.lora, *settings.embeddings)]
    networks = [settings.unet, *(path for path, _ in settings.controlnets)]
    here = [path for path in networks if path and not is_id(path)]
    for path in (*added, *here, *settings.vae, settings.preview_vae, settings.upscaler):
        if path and not path.exists():
            raise BadCheckpoint(f"{path} does not exist")
