"""The magnitudes that a component's activations reach, measured where float16 may not hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from msd.compress.calibration.activations import watch
from msd.compress.calibration.image_inputs import scene_inputs
from msd.compress.calibration.ranges import LARGEST, magnitudes
from msd.conversion.job import Job
from msd.conversion.trace import traced_model
from msd.files.wording import counted, plural
from msd.graph.ir import Graph, Model
from msd.graph.ir.interface import Interface
from msd.graph.ir.weights import Array
from msd.graph.rewrite import apply

RULE = "scale_activations"
CELLS = 16
"""The most rows and columns of the latents that are decoded: activations do not grow with an image."""

PIECE = 8 << 20
"""The most weights that are in memory at a time while an autoencoder is measured."""

Reached = Mapping[str, float]
"""The largest magnitude of each activation, by the name of its tensor."""


def measured(job: Job, names: Iterable[str], pool: Executor) -> dict[str, Future[Reached]]:
    """Return what `pool` finds the activations of those components to reach, on one image, that the family
    says may overflow.

    The image is one of the demo's scenes as the checkpoint's own autoencoder encodes it, or of one without
    an encoder random latents. Empty without the rewrite that needs them.
    """
    if RULE not in (rule.name for rule in job.settings.active_rules):
        return {}
    return {name: pool.submit(_reached, job, name) for name in names if name in job.family.overflowing}


def too_large(name: str, reached: Reached, graph: Graph, scaled: int) -> Iterator[str]:
    """Yield a sentence where activations of `graph` were too large: `scaled` of them now, or still so."""
    left = [tensor.name for tensor in graph.tensors() if not reached.get(tensor.name, 0.0) <= LARGEST]
    if not scaled and not left:
        return
    sums = f"{counted(scaled, 'sum')} of layers {plural(scaled, 'is', 'are')}"
    cure = f"{sums} scaled by powers of two, which normalisation undoes exactly"
    if left:
        cure = f"{left[0]} cannot be scaled, so images in float16 may be black"
    largest = max(reached.values())
    yield f"{name} computes numbers up to {largest:.3g} on an image, and float16 ends at 65504: {cure}"


def _reached(job: Job, name: str) -> Reached:
    small = _small(job)
    graph = _graph(small, name)
    named = [t for op in graph.ops for t in op.outputs[:1] if t.dtype == "FLOAT32" and "~" not in t.name]
    return magnitudes(graph, named, [{"latent": _latents(small, name)}], PIECE)


def _small(job: Job) -> Job:
    """Return the job for one small image."""
    size = job.size
    rows, columns = (min(cells, CELLS) for cells in (size.rows, size.columns))
    return replace(job, sizes=(replace(size, rows=rows, columns=columns, batch=1),))


def _graph(job: Job, name: str) -> Graph:
    graph, settings = traced_model(job, name).main, job.settings
    apply(graph, settings.active_rules, settings.effective_target)
    return graph


def _latents(job: Job, decoder: str) -> Array:
    """Return latents (1, rows, columns, channels) as a scheduler returns them."""
    encoder, channels = job.family.image_encoder, job.checkpoint.configs[decoder].latent_channels
    if encoder is None or not _encodes(job, encoder.name, channels):
        shape, _ = job.networks[decoder].inputs["latent"]  # of a tile, perhaps
        return np.random.default_rng(0).standard_normal(shape, np.float32)
    graph, found = _graph(job, encoder.name), list[Array]()
    port = next(iter(Interface.of(Model([graph]), Path(encoder.name)).inputs.values()))
    watch(graph, islice(scene_inputs(port), 1), graph.outputs, lambda _, value: found.append(value), PIECE)
    latents: Array = found[0][..., :channels] * job.checkpoint.configs[encoder.name].scaling_factor
    return latents


def _encodes(job: Job, encoder: str, channels: int) -> bool:
    """Whether the checkpoint has an encoder, and it reads colours and makes such latents."""
    config = job.checkpoint.configs.get(encoder)
    if encoder not in job.checkpoint.weights or config is None:
        return False
    return (config.in_channels, config.latent_channels, config.scale) == (3, channels, job.size.scale)
