"""Time the tiles in which a GPU may compute Stable Diffusion's convolutions, and check them.

    PYTHONPATH=. python -m scripts.lab.bench_products -o found.json --seconds 170 [--threads]

By matrix units, or by threads with short sums of pairs. Needs numpy, wgpudawn and a GPU with such units, or
with shader-f16. Times are medians by the GPU's own clock, errors in dB to float64. The chosen attentions of
Stable Diffusion 1.5's heads are checked first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from msd.errors import MsdError
from msd.gpu.device import OpenDevice, open_device
from msd.gpu.gpu import Gpu
from msd.gpu.kernels.attention import attend
from msd.gpu.kernels.matrix_tile import MatrixTile
from msd.gpu.kernels.tile import AnyTile
from msd.gpu.kernels.tile_choice import SHORT_EFFICIENCY, SPLITS, choose_tile
from msd.gpu.kernels.tiled_convolution import tiled_convolution
from msd.gpu.kernels.winograd import transformed_filter, winograd
from msd.gpu.operations import Conv2D
from msd.gpu.peaks import measure_peaks
from msd.gpu.value import Dispatch, Value
from scripts.figures import save_figures
from scripts.lab.attention_cases import Case
from scripts.lab.bench_attention import Run, attention_of, measure_runs
from scripts.lab.bench_kernels import Trial, Variants, _operation, _sampled, _timed
from scripts.lab.kernel_shapes import ConvolutionShape as Shape
from scripts.lab.tile_options import by_threads, tile_options

SHAPES = [
    *(Shape(64, 64, 320, 320), Shape(32, 32, 640, 640), Shape(16, 16, 1280, 1280)),
    *(Shape(64, 64, 320, 2560, gate=True), Shape(32, 32, 640, 5120, gate=True)),
    *(Shape(16, 16, 1280, 1280, kernel=3), Shape(64, 64, 320, 320, kernel=3), Shape(64, 64, 1280, 320)),
    *(Shape(16, 16, 1280, 10240, gate=True), Shape(32, 32, 2560, 640), Shape(16, 16, 5120, 1280)),
    *(
        Shape(32, 32, 640, 640, kernel=3),
        Shape(16, 16, 2560, 1280, kernel=3),
        Shape(8, 8, 1280, 1280, kernel=3),
    ),
    *(Shape(96, 96, 320, 320), Shape(96, 96, 320, 2560, gate=True), Shape(96, 96, 1280, 320)),
    *(Shape(48, 48, 640, 640), Shape(24, 24, 1280, 1280), Shape(24, 24, 1280, 1280, kernel=3)),
    *(Shape(64, 64, 640, 640), Shape(64, 64, 640, 5120, gate=True), Shape(32, 32, 1280, 10240, gate=True)),
    *(Shape(32, 32, 5120, 1280), Shape(96, 96, 320, 320, kernel=3), Shape(32, 32, 1920, 640, kernel=3)),
    *(Shape(64, 64, 320, 960), Shape(16, 16, 1280, 3840), Shape(128, 64, 1024, 8192)),
    *(Shape(48, 80, 320, 320), Shape(24, 40, 640, 640), Shape(12, 20, 1280, 1280, kernel=3)),
    *(Shape(1, 77, 1024, 2560), Shape(32, 32, 640, 640, kernel=3, upsample=2)),
]
"""The most important first: the time may not last for all."""
TILES = [
    *((128, 128, 64, 32, 32), (128, 64, 64, 32, 32), (128, 64, 32, 32, 32), (64, 64, 32, 32, 32)),
    *((64, 32, 32, 16, 32), (128, 64, 64, 32, 64), (128, 64, 32, 32, 64), (64, 64, 32, 32, 64)),
    *((64, 32, 32, 16, 64), (128, 128, 32, 32, 32), (64, 64, 32, 16, 32)),
]
"""Rows, columns, a subgroup's, and the step along K."""
THREAD_TILES = [
    *(replace(tile, paired=True) for tile in SHORT_EFFICIENCY),
    *(replace(tile, paired=True, depth=32) for tile in SHORT_EFFICIENCY if tile.thread_columns == 8),
]
HEADS = [
    Case("SD 1.5", 8, queries, keys, size=size, count=1)
    for pixels in (48 * 80, 96 * 64)
    for size, queries in ((40, pixels), (80, pixels // 4), (160, pixels // 16), (160, pixels // 64))
    for keys in (queries, 77)
]
TOGETHER, ROOM = 24, 1 << 30
"""Candidates of one session, and the bytes of their results."""


@dataclass(frozen=True)
class Way:
    """A tile, the workgroups that share a sum, and what makes the dispatches."""

    tile: str
    splits: int
    make: Callable[[Value], list[Dispatch]]
    chosen: bool = False

    @property
    def name(self) -> str:
        """All of it in words."""
        return f"{'chosen ' * self.chosen}{self.tile} /{self.splits}"


def main() -> None:
    """Measure, print a table of each shape, and write the JSON after each."""
    options = tile_options(__doc__, 170)
    begun = time.monotonic()
    device = open_device(api="dawn")
    if options.threads:
        device = by_threads(device)
    report: dict[str, Any] = {"device": device.name, "gpu": str(device.gpu), "heads": [], "rows": []}
    print(device.name, device.gpu, flush=True)
    try:
        report["peaks"] = asdict(measure_peaks(device))
        print(report["peaks"], flush=True)
    except MsdError as problem:
        print(f"peaks: {str(problem)[:500]}", flush=True)
    report["heads"] = list(_heads(device))
    for number, shape in enumerate(SHAPES):
        if time.monotonic() - begun > options.seconds:
            print(f"no time for {', '.join(map(str, SHAPES[number:]))}")
            break
        rows = list(_measured(device, shape))
        report["rows"] += rows
        save_figures(options.output, report, "msd/gpu", indent=1)
        _show(shape, rows, time.monotonic() - begun)


def _heads(device: OpenDevice) -> Iterator[dict[str, Any]]:
    ops = [attention_of(case, device.gpu) for case in HEADS]
    runs = [Run(case, op, attend(op, device.gpu)) for case, op in zip(HEADS, ops, strict=True)]
    for run, row in zip(runs, measure_runs(runs, "", device, 3), strict=True):
        kernel = " + ".join(dispatch.kernel.name for dispatch in run.dispatches)
        yield {"case": row.case.name, "kernel": kernel, "ms": round(row.ms, 4), "db": row.decibels}
        print(f"{row.case.name}: {kernel} {row.ms:.4f} ms {row.decibels} dB", flush=True)


def _measured(device: OpenDevice, shape: Shape) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(0)
    op, x, weights = _operation(shape, device.gpu, rng)
    at, expected = _sampled(op, x, weights, rng)
    if shape.kernel == 3 and shape.height >= 32:
        candidates = list(_by_winograd(op, device.gpu, weights))
    else:
        candidates = list(_direct(op, device.gpu))
    count = op.pixels * op.outputs
    many = max(1, min(TOGETHER, ROOM // (2 * count)))
    for start in range(0, len(candidates), many):
        part = candidates[start : start + many]

        def timed(some: list[Way]) -> list[dict[str, Any]]:
            variants: Variants = {each.name: each.make for each in some}
            trial = Trial(
                inputs={op.x: x},
                count=count,
                flops=op.flops,
                variants=variants,
                chosen=lambda y: [],
                at=at,
                expected=expected,
            )
            found = _timed(device, device.gpu, trial, variants, 5)
            return [_row(shape, each, op, *found[each.name][:2]) for each in some]

        try:
            yield from timed(part)
        except MsdError as problem:
            print(f"{shape}: {str(problem)[:500]}", flush=True)
            for each in part:
                try:
                    yield from timed([each])
                except MsdError as own:
                    print(f"{each.name}: {str(own)[:200]}", flush=True)


def _row(shape: Shape, each: Way, op: Conv2D, seconds: list[float], db: float) -> dict[str, Any]:
    ms = 1e3 * sum(seconds)
    return {
        "shape": str(shape),
        "tile": each.tile,
        "chosen": each.chosen,
        "splits": each.splits,
        "ms": round(ms, 5),
        "parts": [round(1e3 * s, 5) for s in seconds],
        "tflops": round(op.flops / ms / 1e9, 1),
        "db": round(db, 1),
    }


def _tiles(gpu: Gpu, gate: bool = False) -> list[AnyTile]:
    """Return the tiles to try, of matrices where the GPU has units for them."""
    threads = [tile for tile in THREAD_TILES if tile.thread_columns == 8 or not gate]
    tiles: list[AnyTile] = [*threads]
    if gpu.matrix is not None:
        tiles = [MatrixTile(*sizes[:4], gpu.matrix, sizes[4]) for sizes in TILES]
    return [tile for tile in tiles if tile.bytes <= gpu.workgroup_bytes and tile.threads <= gpu.invocations]


def _direct(op: Conv2D, gpu: Gpu) -> Iterator[Way]:
    most = 500 if gpu.matrix else 1400
    for tile in _tiles(gpu, bool(op.epilogue.gate)):
        groups = -(-op.pixels // tile.rows) * -(-op.filter.columns // tile.columns)
        for splits in SPLITS:
            deep = op.filter.rows >= 4 * splits * tile.depth
            if splits == 1 or (deep and 100 <= groups * splits <= most):
                yield Way(str(tile), splits, _convolving(op, gpu, tile, splits))
    sizes = op.pixels, op.filter.columns, op.filter.rows
    gate, taps = bool(op.epilogue.gate), op.kernel != (1, 1)
    chosen = choose_tile(*sizes, gpu, gate=gate, bounded=True, halves=True, taps=taps)
    make = _convolving(op, gpu, chosen.tile, chosen.splits)
    yield Way(str(chosen.tile), chosen.splits, make, chosen=True)


def _convolving(op: Conv2D, gpu: Gpu, tile: AnyTile, splits: int) -> Callable[[Value], list[Dispatch]]:
    return lambda y: tiled_convolution(replace(op, y=y), gpu, tile, splits)


def _by_winograd(op: Conv2D, gpu: Gpu, weights: Any) -> Iterator[Way]:
    filter_ = transformed_filter(lambda: weights, weights.shape[0], weights.shape[3], 4, gpu, "w4", "int8")

    def winograds(tile: AnyTile | None) -> Callable[[Value], list[Dispatch]]:
        return lambda y: winograd(replace(op, y=y), filter_, 4, gpu, size=tile)

    for tile in _tiles(gpu):
        yield Way(str(tile), 1, winograds(tile))
    yield Way("winograd's", 1, winograds(None), chosen=True)


def _show(shape: Shape, rows: list[dict[str, Any]], seconds: float) -> None:
    least = min((row["db"] for row in rows), default=0.0)
    print(f"{shape}: {len(rows)} candidates, at least {least} dB, {seconds:.0f} s since the start")
    best = sorted(rows, key=lambda row: row["ms"])
    for row in best[:6] + [row for row in best if row["chosen"]]:
        parts = f" {row['parts']}" if len(row["parts"]) > 1 else ""
        name = f"{'chosen ' * row['chosen']}{row['tile']} /{row['splits']}"
        print(f"  {name:54} {row['ms']:8.4f} ms {row['tflops']:6.1f} {row['db']:5.1f} dB{parts}", flush=True)


if __name__ == "__main__":
    main()
