"""A child process that generates one image with the real pipeline, so that its memory can be measured."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter

import numpy as np

from msd.bundle import open_bundle
from msd.gpu.gpu_api import GpuApi
from msd.run.runners.messages import Done
from msd.run.runners.peak_memory import peak_rss
from msd.run.runners.registry import find_backend
from msd.run.runners.runner import Conditions, Precision
from msd.run.runners.worker import serve
from msd.run.runtime.execution import Execution
from msd.run.runtime.pipeline import Pipeline

PROMPT = "two red circles on the left over a striped blue background"


@dataclass(frozen=True)
class GenerateImage:
    """Generate an image in `steps` steps; the other fields are arguments of `Pipeline`."""

    folder: Path
    steps: int
    backend: str
    threads: int | None
    precision: Precision
    float_weights: bool
    gpu_api: GpuApi | None
    execution: Execution


def answer(request: GenerateImage) -> Done:
    """Generate an image; `seconds` run from the prompt to the image, the output `steps` has each step's."""
    bundle = open_bundle(request.folder)
    engine = request.backend, request.threads, request.precision, request.float_weights
    # Slow the first time, so before the clock starts.
    find_backend(request.backend).prepare(Conditions(gpu_api=request.gpu_api))
    steps: list[float] = []
    start = perf_counter()
    with Pipeline(bundle, *engine, execution=request.execution, gpu_api=request.gpu_api) as pipeline:
        pipeline.generate(PROMPT, steps=request.steps, on_step=lambda done, total, last: steps.append(last))
        seconds = perf_counter() - start
    return Done(seconds, {"steps": np.array(steps)}, peak_rss())


def main(handle: int) -> None:
    """Serve the parent over the inherited socket `handle`."""
    serve(Connection(handle), answer)
