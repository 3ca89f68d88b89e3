"""Which kind of checkpoint a path is, and opening it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msd.errors import BadCheckpoint
from msd.sources.checkpoint import Checkpoint
from msd.sources.diffusers import open_folder
from msd.sources.single_file import open_single_file

SINGLE_FILES = (".safetensors", ".ckpt", ".pt", ".pth")


def open_checkpoint(path: Path, prediction_type: str | None = None) -> Checkpoint:
    """Return the checkpoint at `path`, of whose weights only the headers are read.

    `prediction_type`, "epsilon" or "v_prediction", counts instead of what the checkpoint says of its U-Net.
    Raises BadCheckpoint, naming the file and what would be right, for what is missing, damaged or of a kind
    that we cannot build.
    """
    if not path.exists():
        raise BadCheckpoint(
            f"{path} does not exist; give a folder with a model_index.json, or a .safetensors or .ckpt file"
        )
    if path.suffix.lower() in SINGLE_FILES and not path.is_dir():
        return open_single_file(path, prediction_type)
    if not path.is_dir():
        raise BadCheckpoint(
            f"{path} is a file whose name ends in {path.suffix or 'nothing'!r}; {', '.join(SINGLE_FILES)} "
            "are known, and folders with a model_index.json"
        )
    checkpoint = open_folder(path)
    if prediction_type is None:
        return checkpoint
    return replace(checkpoint, scheduler={**checkpoint.scheduler, "prediction_type": prediction_type})
