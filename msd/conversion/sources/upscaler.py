"""Adds an upscaler to a checkpoint: Real-ESRGAN in a file of torch or safetensors, or in ncnn's two files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.esrgan import KINDS, UpscalerConfig, upscaler_of
from msd.conversion.sources.ncnn.upscaler import ncnn_files, read_upscaler
from msd.conversion.sources.weight_file import read_contents
from msd.errors import BadCheckpoint, BadConfig
from msd.graph.ir.weights import Weights


def add_upscaler(checkpoint: Checkpoint, path: Path) -> Checkpoint:
    """Return the checkpoint with the upscaler at `path`, of whose weights only headers are read.

    Raises BadConfig for a family without upscalers and a checkpoint with networks of keras-cv;
    BadCheckpoint, naming the path, for anything else than an upscaler of 2 or 4 times.
    """
    component = checkpoint.family.upscaler
    if component is None:
        raise BadConfig(f"{checkpoint.family.title} has no upscaler")
    if checkpoint.networks != "msd":
        raise BadConfig(f"{path} cannot follow networks of {checkpoint.networks}; leave out --source")
    config, tensors, files = _read(path)
    shown = {checkpoint.free_name(component.part.folder, each): each for each in files}
    return replace(
        checkpoint,
        configs={**checkpoint.configs, component.name: config},
        weights={**checkpoint.weights, component.name: tensors},
        files={**checkpoint.files, **shown},
        weight_files={**checkpoint.weight_files, component.name: tuple(shown)},
        replaced=(*checkpoint.replaced, component.name),
    )


def _read(path: Path) -> tuple[UpscalerConfig, dict[str, Weights], tuple[Path, ...]]:
    """Return the network, its weights, and the files that were read."""
    if not path.is_file():
        raise BadCheckpoint(f"{path} is not a file; give {KINDS}")
    if ncnn := ncnn_files(path):
        return *read_upscaler(*ncnn), ncnn
    return *upscaler_of(str(path), read_contents(path).tensors), (path,)
