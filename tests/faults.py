"""Bundles with a fault that a converter could have, for a guard to see; and a re-export, which is none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from msd.bundle import MANIFEST, file_facts
from msd.graph import tflite
from msd.graph.ir import Model, Tensor


def edited(bundle: Path, folder: Path, component: str, edit: Callable[[Model], None]) -> Path:
    """Write a copy of a bundle, one of its networks read, edited and written again; return its folder."""
    shutil.copytree(bundle, folder)
    path = folder / f"{component}.tflite"
    model = tflite.read(bundle / path.name)
    edit(model)
    tflite.write(model, path)
    manifest, facts = json.loads((folder / MANIFEST).read_text()), file_facts(path)
    manifest["components"][component] |= {"sha256": facts.sha256, "bytes": facts.bytes}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


def int8_weights(model: Model) -> dict[str, Tensor]:
    """Return the constants stored as int8, by name, in the order in which they are used."""
    used = (tensor for op in model.main.ops for tensor in op.inputs if tensor is not None)
    return {tensor.name: tensor for tensor in used if tensor.data is not None and tensor.dtype == "INT8"}


def scaled(name: str, factor: float) -> Callable[[Model], None]:
    """Return an edit that multiplies the scales of one int8 constant, and so what it stands for."""

    def edit(model: Model) -> None:
        tensor = int8_weights(model)[name]
        assert tensor.quant is not None
        tensor.quant = replace(tensor.quant, scale=tensor.quant.scale * np.float32(factor))

    return edit


def swapped(one: str, other: str) -> Callable[[Model], None]:
    """Return an edit that gives two constants of one shape each other's values."""

    def edit(model: Model) -> None:
        weights = int8_weights(model)
        a, b = weights[one], weights[other]
        assert a.shape == b.shape
        a.data, b.data, a.quant, b.quant = b.data, a.data, b.quant, a.quant

    return edit


def untouched(model: Model) -> None:
    """Edit nothing: what remains is a re-export."""
