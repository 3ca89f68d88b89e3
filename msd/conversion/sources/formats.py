"""Opens a checkpoint of any kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msd.conversion.sources import diffusers, keras_cv
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.single_file import open_single_file
from msd.errors import BadCheckpoint

SINGLE_FILES = (".safetensors", ".ckpt", ".pt", ".pth")


def open_checkpoint(path: Path, prediction_type: str | None = None, networks: str = "auto") -> Checkpoint:
    """Return the checkpoint at `path`, of whose weights only the headers are read.

    `prediction_type`, "epsilon" or "v_prediction", overrides the checkpoint's own. `networks` "keras-cv" asks
    for keras-cv's own networks, which need its .h5 files. Raises BadCheckpoint, which names the file and the
    remedy, for a checkpoint that is incomplete or damaged, or that we cannot build.
    """
    if not path.exists():
        raise BadCheckpoint(
            f"{path} does not exist; give a folder with a model_index.json, a .safetensors or .ckpt file, or "
            "a folder with keras-cv's .h5 files"
        )
    if _is_keras_cv(path):
        checkpoint = keras_cv.open_folder(path, "keras-cv" if networks == "keras-cv" else "msd")
        return _with_prediction_type(checkpoint, prediction_type)
    if networks == "keras-cv":
        raise BadCheckpoint(f"{path} has no .h5 files; --source keras-cv wants a folder of keras-cv's")
    if path.suffix.lower() in SINGLE_FILES and not path.is_dir():
        return open_single_file(path, prediction_type)
    if not path.is_dir():
        raise BadCheckpoint(
            f"{path} is a file whose name ends in {path.suffix or 'nothing'!r}; {', '.join(SINGLE_FILES)} "
            "are known, and folders with a model_index.json or with keras-cv's .h5 files"
        )
    return _with_prediction_type(diffusers.open_folder(path), prediction_type)


def _is_keras_cv(path: Path) -> bool:
    return path.is_dir() and not (path / "model_index.json").exists() and any(path.glob("*.h5"))


def _with_prediction_type(checkpoint: Checkpoint, prediction_type: str | None) -> Checkpoint:
    if prediction_type is None:
        return checkpoint
    return replace(checkpoint, scheduler={**checkpoint.scheduler, "prediction_type": prediction_type})
