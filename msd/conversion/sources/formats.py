"""Opens a checkpoint of any kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote

from msd.bundle import MANIFEST
from msd.conversion.sources import diffusers, keras_cv
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.other_formats import INSTEAD, format_of_files, remedy_for_address
from msd.conversion.sources.single_file import open_single_file
from msd.conversion.sources.weight_file import is_weight_file
from msd.errors import BadCheckpoint
from msd.files import bounded

WANTED = "give a folder with a model_index.json or keras-cv's .h5 files, or a .safetensors or .ckpt file"
BELOW = ("*", "snapshots/*")
"""Where folders are that hold a checkpoint's folder; the second is Hugging Face's cache."""

OPTIONS = {
    "UNet2DConditionModel": "--unet",
    "AutoencoderKL": "--vae",
    "AutoencoderTiny": "--vae or --preview-vae",
    "ControlNetModel": "--controlnet",
}
"""The options that take a network's folder, by diffusers' class of it."""


def open_checkpoint(
    path: Path, prediction_type: str | None = None, networks: str = "auto", vae_is_given: bool = False
) -> Checkpoint:
    """Return the checkpoint at `path`, of whose weights only the headers are read.

    What a file holds decides how it is read, and never what its name ends in. `prediction_type`, "epsilon" or
    "v_prediction", overrides the checkpoint's own. `networks` "keras-cv" asks for keras-cv's own networks,
    which need its .h5 files. `vae_is_given` says that the caller has an autoencoder, which the checkpoint may
    then lack. Raises BadCheckpoint, which names the file and the remedy, for a checkpoint that is incomplete
    or damaged, or that we cannot build.
    """
    if not path.exists():
        raise BadCheckpoint(f"{path} does not exist; {remedy_for_address(path) or WANTED}")
    if _is_keras_cv(path):
        checkpoint = keras_cv.open_folder(
            path, "keras-cv" if networks == "keras-cv" else "msd", vae_is_given=vae_is_given
        )
        return _with_prediction_type(checkpoint, prediction_type)
    if networks == "keras-cv":
        raise BadCheckpoint(f"{path} has no .h5 files; --source keras-cv wants a folder of keras-cv's")
    if not path.is_dir():
        if path.name == diffusers.INDEX:
            raise BadCheckpoint(f"{path} describes a checkpoint; give its folder, {path.parent}")
        return open_single_file(path, prediction_type, vae_is_given)
    require_index(path)
    return _with_prediction_type(diffusers.open_folder(path, vae_is_given), prediction_type)


def require_index(folder: Path) -> None:
    """Raise BadCheckpoint for a folder without a model_index.json, saying what it holds."""
    if (folder / diffusers.INDEX).exists():
        return
    if (folder / MANIFEST).exists():
        raise BadCheckpoint(
            f"{folder} is converted already: msd generate {quote(str(folder))} -p PROMPT runs it; give the"
            " checkpoint that it was made from"
        )
    raise BadCheckpoint(f"{folder} has no readable {diffusers.INDEX}; {_instead(folder)}")


def _instead(folder: Path) -> str:
    """Return what a folder without a model_index.json has, and what should be given instead."""
    names = sorted(each.name for each in folder.iterdir())
    files = [name for name in names if is_weight_file(folder / name)]
    below = (index for pattern in BELOW for index in sorted(folder.glob(f"{pattern}/{diffusers.INDEX}")))
    if index := next(below, None):
        return f"{index.parent.relative_to(folder)} in it has one: give {index.parent}"
    if len(files) == 1 and "config.json" not in names:
        return f"it holds {files[0]}: give that file"
    if files:
        return f"it holds {', '.join(files[:3])}, {_of_part(folder)}"
    if what := format_of_files(names):
        return f"it holds {what}; {INSTEAD}"
    return f"it holds {', '.join(names[:8])}" if names else "it is empty"


def _of_part(folder: Path) -> str:
    """Return what a folder with weights is, by the class that its config.json says, and what to give."""
    above = "as one part of a checkpoint does: give the folder above it"
    try:
        config = bounded.read_json(folder / diffusers.CONFIG)
    except (OSError, ValueError):
        return above
    kind = config.get("_class_name") if isinstance(config, dict) else None
    if option := OPTIONS.get(str(kind)):
        return f"{above}, or a checkpoint and this as its {option}"
    return f"the weights of one {kind}, which is not supported" if kind else above


def _is_keras_cv(path: Path) -> bool:
    return path.is_dir() and not (path / diffusers.INDEX).exists() and bool(keras_cv.weight_files(path))


def _with_prediction_type(checkpoint: Checkpoint, prediction_type: str | None) -> Checkpoint:
    if prediction_type is None:
        return checkpoint
    return replace(checkpoint, scheduler={**checkpoint.scheduler, "prediction_type": prediction_type})
