"""A table of time embeddings for a program that reads them: configs/interfaces, `time_embeddings`.

The layout is that of mobile_app_open's embedding_utils.cc: the number of timesteps, uint32; the timesteps,
int32, the latest first; then each one's embedding, float32. All little-endian. The timesteps are keras-cv's
(models/stable_diffusion/stable_diffusion.py): evenly from 0 to 999, rounded.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from msd.conversion.client_interface import TimeEmbeddings
from msd.graph import tflite
from msd.graph.ir import Graph, Model
from msd.graph.ir.weights import Array
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.timestep import embed_timestep

TRAINED = 1000
"""The number of timesteps that the models were trained on."""


def timesteps(steps: int) -> Array:
    """Return keras-cv's timesteps for that many steps, int32, the latest first."""
    gap = (TRAINED - 1) / (steps - 1) if steps > 1 else TRAINED
    return (np.arange(steps) * gap).round().astype(np.int32)[::-1].copy()


def time_embedding_table(layers: Graph, wanted: TimeEmbeddings, cosine_first: bool, shift: float) -> bytes:
    """Return the file's bytes; `layers` compute an embedding from the sinusoids of a timestep, on the CPU."""
    order = timesteps(wanted.steps)
    (source,) = layers.inputs
    rows = []
    with TemporaryDirectory(prefix="time-embedding-") as folder:
        path = Path(folder) / "layers.tflite"
        tflite.write(Model([layers]), path)
        with Interpreter(path) as network:
            for timestep in order:
                waves = embed_timestep(float(timestep), source.shape[-1], cosine_first, shift)
                (result,) = network.run({source.name: np.tile(waves, (source.shape[0], 1))}).values()
                rows.append(np.asarray(result, "<f4").reshape(source.shape[0], -1)[0])
    head = np.uint32(wanted.steps).astype("<u4").tobytes() + order.astype("<i4").tobytes()
    return b"".join((head, *(row.tobytes() for row in rows)))
