"""Time the tiles of a GPU's matrix units: FlashAttention's, and convolutions', at sizes of several latents.

    PYTHONPATH=. python -m scripts.lab.bench_matrix_tiles -o found.json [--toggle disable_robustness]

Needs numpy, wgpudawn and a GPU with such units. Times are medians by the GPU's own clock, errors in dB to
float64. Toggles are Dawn's, and hold for the whole process.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from msd.errors import MsdError
from msd.gpu.device import OpenDevice, open_device
from msd.gpu.gpu import Gpu
from msd.gpu.gpu_api import IMPLEMENTATIONS
from msd.gpu.kernels.flash import choose_tile, flash
from msd.gpu.kernels.flash_matrix import flash_by_matrices
from msd.gpu.kernels.flash_matrix_tile import FlashMatrixTile
from msd.gpu.kernels.matrix_tile import MatrixTile
from msd.gpu.kernels.tiled_convolution import tiled_convolution
from msd.gpu.value import Dispatch, Value
from scripts.lab.attention_cases import Case
from scripts.lab.bench_attention import Run, attention_of, measure_runs
from scripts.lab.bench_kernels import Trial, Variants, _operation, _sampled, _timed
from scripts.lab.kernel_shapes import ConvolutionShape

CASES = [
    Case("SD 2.1", 5, 9216, 9216, size=64, count=5),
    Case("SD 2.1", 5, 9216, 77, size=64, count=5),
    Case("SD 2.1", 5, 4096, 4096, size=64, count=5),
    Case("SD 2.1", 10, 2304, 2304, size=64, count=5),
    Case("SD 2.1", 10, 1024, 1024, size=64, count=5),
    Case("SD 2.1", 20, 576, 576, size=64, count=5),
    Case("SD 2.1", 20, 256, 256, size=64, count=5),
    Case("SD 2.1", 20, 256, 77, size=64, count=5),
    Case("SD 1.5", 8, 6144, 6144, size=40, count=5),
    Case("SD 1.5", 8, 4096, 77, size=40, count=5),
    Case("SD 1.5", 8, 1024, 1024, size=80, count=5),
    Case("SD 1.5", 8, 256, 256, size=160, count=5),
]
FLASH = [
    *((128, 32, 32, 1, 2), (64, 32, 32, 1, 2), (64, 64, 32, 1, 1), (64, 32, 16, 1, 2), (128, 32, 16, 1, 2)),
    *((128, 32, 32, 2, 2), (64, 32, 32, 2, 2), (64, 64, 32, 2, 1), (128, 32, 32, 1, 1), (128, 16, 32, 1, 2)),
    *((32, 32, 16, 1, 1), (256, 16, 32, 1, 2), (64, 32, 32, 1, 1), (64, 32, 16, 1, 1), (192, 16, 32, 1, 2)),
]
"""Queries, keys, rows of a subgroup, subgroups across, buffers."""
DIRECT = [
    ConvolutionShape(64, 64, 320, 320),
    ConvolutionShape(64, 64, 320, 2560, gate=True),
    ConvolutionShape(64, 64, 1280, 320),
    ConvolutionShape(32, 32, 640, 640),
    ConvolutionShape(32, 32, 640, 5120, gate=True),
    ConvolutionShape(16, 16, 1280, 1280),
    ConvolutionShape(16, 16, 2560, 1280, kernel=3),
    ConvolutionShape(96, 96, 320, 320),
    ConvolutionShape(96, 96, 320, 2560, gate=True),
    ConvolutionShape(96, 96, 1280, 320),
    ConvolutionShape(48, 48, 640, 640),
]
MATRIX = [
    *((128, 128, 64, 32, 32), (128, 64, 32, 32, 32), (64, 64, 32, 32, 32), (64, 32, 32, 16, 32)),
    *((32, 64, 16, 32, 32), (128, 64, 64, 32, 32), (64, 64, 32, 16, 32), (128, 64, 32, 32, 64)),
    *((128, 128, 64, 64, 32), (32, 32, 16, 16, 64), (64, 64, 32, 16, 64), (64, 32, 32, 16, 64)),
]
"""Rows, columns, a block's, and the step along K."""


def main() -> None:
    """Measure, print, and write the JSON after each shape."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--toggle", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=90.0, help="half for attention")
    options = parser.parse_args()
    cast(Any, IMPLEMENTATIONS["dawn"].options)["enable_toggles"].extend(options.toggle)
    device = open_device(api="dawn")
    rows: list[dict[str, Any]] = []
    print(device.name, device.gpu, options.toggle, flush=True)
    begun = time.monotonic()
    for found in _attention(device, begun + options.seconds / 2):
        rows.append(found)
    for found in _convolutions(device, begun + options.seconds):
        rows.append(found)
    report = {"device": device.name, "toggles": options.toggle, "rows": rows}
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    for shape in dict.fromkeys(row["shape"] for row in rows):
        print(shape)
        for row in sorted((r for r in rows if r["shape"] == shape), key=lambda r: r["ms"])[:9]:
            print(f"  {row['variant']:58} {row['ms']:8.4f} ms {row['tflops']:6.1f} {row['db']:5.1f} dB")


def _attention(device: OpenDevice, end: float) -> Iterator[dict[str, Any]]:
    for size in dict.fromkeys(case.size for case in CASES):
        tiles = _flash_tiles(size, device.gpu)
        if time.monotonic() > end:
            print(f"no time for heads of {size}", flush=True)
            continue
        try:
            yield from _heads(device, size, tiles)
        except MsdError as problem:
            print(f"heads of {size}: {str(problem)[:600]}", flush=True)
            for name, make in tiles.items():
                try:
                    yield from _heads(device, size, {name: make})
                except MsdError as own:
                    print(f"{name} of {size}: {str(own)[:600]}", flush=True)


def _heads(
    device: OpenDevice, size: int, tiles: Mapping[str, Callable[[Any], Dispatch]]
) -> list[dict[str, Any]]:
    same = [case for case in CASES if case.size == size]
    runs, names = list[Run](), list[str]()
    for name, make in tiles.items():
        ops = [attention_of(case, device.gpu) for case in same]
        runs += [Run(case, op, [make(op)]) for case, op in zip(same, ops, strict=True)]
        names += [name] * len(same)
    found = measure_runs(runs, "", device, 7)
    return [
        {
            "shape": f"attention {r.case.name}",
            "variant": name,
            "ms": round(r.ms, 4),
            "tflops": round(r.tflops, 1),
            "db": r.decibels,
        }
        for name, r in zip(names, found, strict=True)
    ]


def _flash_tiles(size: int, gpu: Gpu) -> Mapping[str, Callable[[Any], Dispatch]]:
    unit = gpu.matrix
    assert unit is not None, "the adapter has no matrix units"
    tiles = [FlashMatrixTile(*sizes[:3], unit, *sizes[3:]) for sizes in FLASH]
    if size > 64:
        tiles = [tile for tile in tiles if tile.rows == 16 or size <= 80]
    sized = [t for t in tiles if t.bytes(size, size) <= gpu.workgroup_bytes]
    made = {str(t): _by(t, gpu) for t in sized if t.whole and t.threads <= gpu.invocations}
    return {"by threads": partial(_by_threads, gpu)} | made


def _by(tile: FlashMatrixTile, gpu: Gpu) -> Callable[[Any], Dispatch]:
    return lambda op: flash_by_matrices(op, tile, gpu)


def _by_threads(gpu: Gpu, op: Any) -> Dispatch:
    tile = choose_tile(op, gpu)
    assert tile is not None, "every case has a tile"
    return flash(op, tile, gpu)


def _convolutions(device: OpenDevice, end: float) -> Iterator[dict[str, Any]]:
    for shape in DIRECT:
        if time.monotonic() > end:
            print(f"no time for {shape}", flush=True)
            continue
        gpu, rng = device.gpu, np.random.default_rng(0)
        op, x, weights = _operation(shape, gpu, rng)
        at, expected = _sampled(op, x, weights, rng)
        variants = _tiled(op, gpu)
        count = op.pixels * op.outputs
        trial = Trial({op.x: x}, count, op.flops, variants, chosen=lambda y: [], at=at, expected=expected)
        try:
            timed = _timed(device, gpu, trial, variants, 7)
        except MsdError as problem:
            print(f"{shape}: {str(problem)[:300]}", flush=True)
            continue
        for name, (taken, db, _) in timed.items():
            ms = 1e3 * sum(taken)
            yield {
                "shape": str(shape),
                "variant": name,
                "ms": round(ms, 4),
                "tflops": round(op.flops / ms / 1e9, 1),
                "db": round(db, 1),
            }


def _tiled(op: Any, gpu: Gpu) -> Variants:
    assert gpu.matrix is not None, "the adapter has no matrix units"
    variants: Variants = {}

    def tiled(tile: MatrixTile, splits: int) -> Callable[[Value], list[Dispatch]]:
        return lambda y: tiled_convolution(replace(op, y=y), gpu, tile, splits)

    for rows, columns, block_rows, block_columns, depth in MATRIX:
        tile = MatrixTile(rows, columns, block_rows, block_columns, unit=gpu.matrix, depth=depth)
        if tile.bytes > gpu.workgroup_bytes:
            continue
        groups = -(-op.pixels // tile.rows) * -(-op.filter.columns // tile.columns)
        for splits in (1, 2, 4, 8):
            worth = splits == 1 or (groups * splits <= 800 and op.filter.rows >= 4 * splits * depth)
            if worth:
                variants[f"{tile} / {splits}"] = tiled(tile, splits)
    return variants


if __name__ == "__main__":
    main()
