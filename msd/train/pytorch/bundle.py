"""A checkpoint in diffusers' layout, described as the bundle that a conversion would make of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import msd
from msd.bundle import (
    Bundle,
    Configuration,
    Conversion,
    ConvertedFile,
    File,
    ImageDefaults,
    Manifest,
    RecipeFacts,
    Source,
    file_facts,
)
from msd.conversion.schedule import image_defaults
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.diffusers import open_folder
from msd.errors import BadCheckpoint
from msd.files.schema import to_json
from msd.models.families.wiring import is_guided
from msd.models.networks import Size, require_depth, size_of
from msd.train.pytorch.ports import Ports, ports_of, wiring_of

PASSES = 2
"""The most rows of the U-Net for one image."""


def checkpoint_bundle(folder: Path, batch: int = 1) -> tuple[Checkpoint, Bundle]:
    """Return the checkpoint in `folder`, and a bundle of its networks in float32.

    The U-Net takes `PASSES` rows for each of `batch` images. The bundle's files do not exist: its tokenizer
    and its scheduler are the checkpoint's own, and its networks are for `msd.train.pytorch.backend`. Raises
    BadCheckpoint, also for a U-Net that repaints or edits images.
    """
    checkpoint = open_folder(folder)
    family, configs = checkpoint.family, checkpoint.configs
    for name in family.required:
        require_depth(name, configs[name], checkpoint.weights[name], checkpoint.name)
    if family.needs(configs):
        raise BadCheckpoint(
            f"the model in {folder} repaints or edits an image, and PyTorch runs models of prompts alone"
        )
    size = size_of(family, configs)
    hashes = {name: file_facts(path) for name, path in checkpoint.files.items()}
    rows = _rows(checkpoint, batch)
    ports = ports_of(checkpoint, rows, size)
    files = [_file(checkpoint, name, each, hashes) for name, each in ports.items()]
    height, width = size.pixels
    return checkpoint, Bundle(
        folder,
        Manifest(
            msd=msd.__version__,
            source=Source(checkpoint.kind, checkpoint.name, hashes),
            configuration=Configuration(
                height=height,
                width=width,
                batch=rows[family.denoiser.name],
                recipe=RecipeFacts("float32", ""),
                components={name: to_json(asdict(config)) for name, config in configs.items()},
            ),
            components={file.file: file for file in files},
            conversion=Conversion(0.0, 0),
            scheduler=dict(checkpoint.scheduler),
            images=_images(checkpoint, size),
            family=family.name,
            calls=wiring_of(checkpoint, ports).calls,
        ),
    )


def _rows(checkpoint: Checkpoint, batch: int) -> dict[str, int]:
    """Return the rows that each network takes in one run, by its name."""
    family = checkpoint.family
    rows = dict.fromkeys(family.required, 1)
    return rows | {family.denoiser.name: PASSES * batch}


def _images(checkpoint: Checkpoint, size: Size) -> ImageDefaults:
    """Return the steps and the guidance of images by default, as a conversion's manifest has them."""
    denoiser = checkpoint.configs[checkpoint.family.denoiser.name]
    return checkpoint.images or image_defaults(
        checkpoint.scheduler, is_guided(checkpoint.family, denoiser.inputs(size))
    )


def _file(checkpoint: Checkpoint, name: str, ports: Ports, hashes: Mapping[str, File]) -> ConvertedFile:
    stored = [hashes[each] for each in checkpoint.weight_files[name]]
    joined = " ".join(file.sha256 for file in stored)
    return ConvertedFile(
        file=name,
        sha256=stored[0].sha256 if len(stored) == 1 else hashlib.sha256(joined.encode()).hexdigest(),
        bytes=sum(file.bytes for file in stored),
        operations=0,
        inputs=ports.inputs,
        outputs=ports.outputs,
    )
