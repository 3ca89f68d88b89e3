"""Which kind of checkpoint a path is, and opening it."""

from __future__ import annotations

from pathlib import Path

from msd.errors import BadCheckpoint
from msd.sources.checkpoint import Checkpoint
from msd.sources.diffusers import open_folder


def open_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint at `path`, of whose weights only the headers are read.

    Raises BadCheckpoint, naming the file and what would be right, for what is missing, damaged or of a kind
    that we cannot build.
    """
    if not path.exists():
        raise BadCheckpoint(f"{path} does not exist; give a folder with a model_index.json")
    return open_folder(path)
