"""The child process of `msd kernels --winograd`: one convolution in each tile size, timed and compared."""

from __future__ import annotations

import os
from functools import cache
from multiprocessing.connection import Connection
from statistics import median
from time import perf_counter

import numpy as np

from msd.errors import DelegateFailed
from msd.gpu.assemble import Named, assemble
from msd.gpu.device import OpenDevice, open_device
from msd.gpu.gpu import Gpu
from msd.gpu.gpu_api import GpuApi
from msd.gpu.kernels.convolution import convolve
from msd.gpu.kernels.filters import pack_filter
from msd.gpu.kernels.winograd import choose_winograd, fits_winograd, transformed_filter, winograd
from msd.gpu.operations import Conv2D
from msd.gpu.session import NUMPY, Session
from msd.gpu.value import Dispatch, Value
from msd.graph.ir.weights import Array
from msd.measure.profiling.shapes import MeasureShape, WinogradShape
from msd.measure.profiling.winograd_counts import TILES
from msd.run.runners.messages import Done
from msd.run.runners.runner import Placement
from msd.run.runners.worker import serve

SAMPLES = 64
"""The pixels of a result that are compared with exact ones: all channels of each."""


def answer(request: MeasureShape) -> Done:
    """Return arrays: `tiles` (0 for no Winograd), `seconds` and `decibels` of each, and the `chosen` tile."""
    start, device = perf_counter(), opened(request.precision == "fp16", request.api)
    if not device.timestamps:
        raise DelegateFailed(f"{device.name} has no timestamp queries")
    case = TileTrial(request.shape, device.gpu)
    found: dict[int, tuple[float, float]] = {}
    for tile in (0, *TILES):
        try:
            found[tile] = case.measure(tile, device, request.repeats)
        except DelegateFailed:
            if tile == 0:
                raise
    outputs: dict[str, Array] = {
        "tiles": np.array(list(found)),
        "seconds": np.array([seconds for seconds, _ in found.values()]),
        "decibels": np.array([decibels for _, decibels in found.values()]),
        "chosen": np.array(choose_winograd(case.operation, device.gpu) or 0),
        "software": np.array(device.software),
    }
    place = Placement(processor=device.name, precision="fp16" if device.gpu.half else "fp32")
    return Done(perf_counter() - start, outputs, placed=place)


@cache
def opened(half: bool, api: GpuApi | None) -> OpenDevice:
    """Return the GPU, opened once."""
    return open_device(half, api)


class TileTrial:
    """A convolution of seeded random numbers with int8 weights, and exact results at some pixels."""

    def __init__(self, shape: WinogradShape, gpu: Gpu) -> None:
        rng = np.random.default_rng(0)
        size = shape.batch, shape.height, shape.width, shape.inputs
        self.gpu, self.x = gpu, rng.standard_normal(size, dtype=np.float32).astype(NUMPY[gpu.real])
        self.stored = rng.integers(-127, 128, (shape.outputs, 3, 3, shape.inputs), dtype=np.int8)
        self.scale = np.full(shape.outputs, 1 / (73 * 3 * np.sqrt(shape.inputs)), np.float32)
        self.pixels = [rng.integers(0, size[axis], SAMPLES) for axis in range(3)]
        self.operation = self._operation(shape)

    def measure(self, tile: int, device: OpenDevice, repeats: int) -> tuple[float, float]:
        """Return the median seconds of all dispatches, and the decibels; raises DelegateFailed."""
        op = self.operation
        ports = [{each.name: Named(each, (each.count,), "float32")} for each in (op.x, op.y)]
        program = assemble(self._dispatches(tile), ports[0], ports[1], self.gpu)
        inputs = {op.x.name: self.x.reshape(-1)}
        with Session(program, device) as session:
            found = session.run(inputs)[op.y.name]
            seconds = [sum(session.time(inputs)) for _ in range(repeats)]
        return median(seconds), self.decibels(found)

    def decibels(self, found: Array) -> float:
        """Return the ratio of the exact results' power to the errors' at the sampled pixels."""
        op, exact = self.operation, self.exact()
        sampled = found.reshape(op.batch, op.out_height, op.out_width, op.outputs)[tuple(self.pixels)]
        error = float(np.mean((sampled - exact) ** 2))
        return float(10 * np.log10(np.mean(exact**2) / error)) if error else float("inf")

    def exact(self) -> Array:
        """Return the exact results at the sampled pixels, float64 of (pixels, channels)."""
        padded = np.pad(self.x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
        b, y, x = self.pixels
        windows = np.stack([padded[b, y + dy, x + dx] for dy in range(3) for dx in range(3)], 1)
        matrix = self.stored.reshape(len(self.stored), -1).astype(np.float64)
        return np.asarray(windows.reshape(SAMPLES, -1) @ matrix.T * self.scale.astype(np.float64))

    def _operation(self, shape: WinogradShape) -> Conv2D:
        rows, real = 9 * shape.inputs, self.gpu.real
        return Conv2D(
            x=Value("x", real, self.x.size),
            filter=pack_filter(
                lambda: self.stored, "int8", rows, shape.outputs, self.scale, self.gpu, "filter"
            ),
            y=Value("y", real, shape.batch * shape.height * shape.width * shape.outputs),
            batch=shape.batch,
            height=shape.height,
            width=shape.width,
            channels=shape.inputs,
            out_height=shape.height,
            out_width=shape.width,
            kernel=(3, 3),
            pad=(1, 1),
        )

    def _dispatches(self, tile: int) -> list[Dispatch]:
        if tile == 0:
            return convolve(self.operation, self.gpu)
        if not fits_winograd(self.operation):
            raise DelegateFailed("Winograd's kernels do not compute this convolution")
        outputs, _, _, inputs = self.stored.shape
        weights = transformed_filter(lambda: self.stored, outputs, inputs, tile, self.gpu, "transformed")
        return winograd(self.operation, weights, tile, self.gpu)


def main(handle: int) -> None:
    """Serve the parent over the inherited socket `handle`."""
    serve(Connection(handle), answer)
    # The drivers' own clean-up has nothing left to save, and it can crash.
    os._exit(0)
