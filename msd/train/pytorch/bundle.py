"""A checkpoint in diffusers' layout, described as the bundle that a conversion would make of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
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
from msd.models.families import FIRST, Component, find_family
from msd.models.families.wiring import is_guided
from msd.models.networks import Size, require_depth, size_of
from msd.models.trace import InputSpecs
from msd.tensor_spec import TensorSpec

PASSES = 2
"""The most rows of the U-Net for one image."""


def require_pytorch_runs(checkpoint: Checkpoint, remedy: str) -> None:
    """Raise BadCheckpoint, with the remedy, for a family whose networks PyTorch does not run here."""
    if checkpoint.family.name != FIRST:
        raise BadCheckpoint(
            f"{checkpoint.name} is a {checkpoint.family.title}, and PyTorch runs"
            f" {find_family(FIRST).title} alone; {remedy}"
        )


def checkpoint_bundle(folder: Path, batch: int = 1) -> tuple[Checkpoint, Bundle]:
    """Return the checkpoint in `folder`, and a bundle of its networks in float32.

    The U-Net takes `PASSES` rows for each of `batch` images. The bundle's files do not exist: its tokenizer
    and its scheduler are the checkpoint's own, and its networks are for `msd.train.pytorch.backend`. Raises
    BadCheckpoint, also for a U-Net that repaints images, and for another family.
    """
    checkpoint = open_folder(folder)
    require_pytorch_runs(checkpoint, "convert it, and give the folder of its files")
    family, configs = checkpoint.family, checkpoint.configs
    for name in family.required:
        require_depth(name, configs[name], checkpoint.weights[name], checkpoint.name)
    if needs := family.needs(configs):
        raise BadCheckpoint(f"the model in {folder} needs {', '.join(needs)}: it repaints a part of an image")
    size = size_of(family, configs)
    hashes = {name: file_facts(path) for name, path in checkpoint.files.items()}
    files = [
        _file(checkpoint, family.component(name), replace(size, batch=rows), hashes)
        for name, rows in _rows(checkpoint, batch).items()
    ]
    height, width = size.pixels
    return checkpoint, Bundle(
        folder,
        Manifest(
            msd=msd.__version__,
            source=Source(checkpoint.kind, checkpoint.name, hashes),
            configuration=Configuration(
                height=height,
                width=width,
                batch=batch,
                recipe=RecipeFacts("float32", ""),
                components={name: to_json(asdict(config)) for name, config in configs.items()},
            ),
            components={file.file: file for file in files},
            conversion=Conversion(0.0, 0),
            scheduler=dict(checkpoint.scheduler),
            images=_images(checkpoint, size),
            family=family.name,
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


def _file(
    checkpoint: Checkpoint, component: Component, size: Size, hashes: Mapping[str, File]
) -> ConvertedFile:
    inputs = checkpoint.configs[component.name].inputs(size)
    stored = [hashes[name] for name in checkpoint.weight_files[component.name]]
    joined = " ".join(file.sha256 for file in stored)
    return ConvertedFile(
        file=component.name,
        sha256=stored[0].sha256 if len(stored) == 1 else hashlib.sha256(joined.encode()).hexdigest(),
        bytes=sum(file.bytes for file in stored),
        operations=0,
        inputs=tuple(TensorSpec(name, shape, dtype) for name, (shape, dtype) in inputs.items()),
        outputs=tuple(_outputs(checkpoint, component, size)),
    )


def _outputs(checkpoint: Checkpoint, component: Component, size: Size) -> Iterator[TensorSpec]:
    """Yield the outputs of a network: a prediction is like the latents, a value like the input it is for."""
    family = checkpoint.family
    inputs: InputSpecs = checkpoint.configs[family.denoiser.name].inputs(size)
    fed = {
        source.of: inputs[each.name][0]
        for call in family.calls
        if call.component == family.denoiser.name
        for each in call.inputs
        if each.name in inputs
        for source in each.sources
    }
    for call in (call for call in family.calls if call.component == component.name):
        for output in call.outputs:
            if output.kind == "image":
                channels = checkpoint.configs[component.name].out_channels
                yield TensorSpec(output.tensor, (size.batch, *size.pixels, channels), "float32")
            else:
                shape = fed[""] if output.kind == "prediction" else fed[output.value]
                yield TensorSpec(output.tensor, shape, "float32")
