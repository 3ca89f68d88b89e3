"""What a manifest says of files: those that were read and those that were written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msd import tflite
from msd.bundle import (
    COMPONENTS,
    Adapter,
    Component,
    Configuration,
    RecipeFacts,
    RunsOn,
    Source,
    file_facts,
)
from msd.encoding.recipe import Recipe
from msd.ir.interface import Interface
from msd.runners.interpreter import require_loadable
from msd.sources.checkpoint import Checkpoint
from msd.sources.published import PUBLISHED


def component_of(path: Path, made_from: str, runs_on: RunsOn) -> Component:
    """Read a written file back, here and with LiteRT, and return what it is."""
    require_loadable(path)
    model = tflite.read(path)
    facts, interface = file_facts(path), Interface.of(model, path)
    return Component(
        path.name,
        facts.sha256,
        facts.bytes,
        len(model.main.ops),
        tuple(interface.inputs.values()),
        tuple(interface.outputs.values()),
        made_from,
        runs_on,
    )


def source_of(checkpoint: Checkpoint, components: Sequence[str]) -> Source:
    """Return what the checkpoint is made of, but for files that only other components' weights are in."""
    held = {name for files in checkpoint.holders.values() for name in files}
    read = {name for component in components for name in checkpoint.holders[component]}
    files = {n: file_facts(path) for n, path in checkpoint.files.items() if n in read or n not in held}
    published = {name: PUBLISHED[f.sha256] for name, f in files.items() if f.sha256 in PUBLISHED}
    adapters = tuple(Adapter(name, scale) for name, scale in checkpoint.adapters.items())
    return Source(checkpoint.kind, checkpoint.name, files, adapters, published)


def configuration_of(
    checkpoint: Checkpoint, recipe: Recipe, batch: int, pixels: tuple[int, int]
) -> Configuration:
    """Return how a checkpoint is converted; `pixels` are the pictures' height and width."""
    text_encoder, unet, vae_decoder = (_json(asdict(getattr(checkpoint, c))) for c in COMPONENTS)
    facts = RecipeFacts(recipe.name, recipe.digest)
    return Configuration(text_encoder, unet, vae_decoder, *pixels, batch, facts, checkpoint.networks)


def _json(value: dict[str, Any]) -> dict[str, Any]:
    """Return what JSON makes of it, in which tuples are lists: so it equals what is read again."""
    plain: dict[str, Any] = json.loads(json.dumps(value))
    return plain
