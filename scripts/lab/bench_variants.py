"""Time tiles with and without short sums, and FlashAttention's, at the shapes that decide.

    PYTHONPATH=. python -m scripts.lab.bench_variants --json variants.json [--seconds 90]

Needs numpy and wgpu. Convolutions of the U-Net and of the decoder run in every tile and split that is
plausible, Winograd's products in every tile, attention in FlashAttention's tiles; times are medians by the
GPU's own clock, errors in dB to float64. With --small, sizes are small enough for a GPU that is software.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from msd.errors import MsdError
from msd.gpu.device import OpenDevice, open_device
from msd.gpu.gpu import Gpu
from msd.gpu.kernels.flash import flash
from msd.gpu.kernels.flash_tile import FlashTile
from msd.gpu.kernels.tile import Tile
from msd.gpu.kernels.tiled_convolution import tiled_convolution
from msd.gpu.kernels.winograd import tile_count, transformed_filter, winograd
from msd.gpu.value import Dispatch, Value
from scripts.figures import save_figures
from scripts.lab.attention_cases import Case
from scripts.lab.bench_attention import Run, attention_of, measure_runs, tile_name
from scripts.lab.bench_kernels import Trial, Variants, _operation, _sampled, _timed
from scripts.lab.kernel_shapes import ConvolutionShape

SIZES = [
    *((128, 64, 8, 8), (64, 64, 8, 8), (64, 128, 8, 8), (128, 128, 8, 8)),
    *((64, 64, 4, 8), (32, 64, 4, 8), (64, 64, 4, 4), (32, 32, 4, 4)),
]
PLAIN = [Tile(128, 64, 8, 8), Tile(64, 64, 8, 8), Tile(64, 64, 4, 8)]
SHORT = [Tile(*size, 16, short=16, stored="f16") for size in SIZES]
DEEP = [
    *(Tile(*size, 32, short=16, stored="f16") for size in SIZES[:2]),
    *(Tile(*size, 32, short=32, stored="f16") for size in SIZES[:4]),
    *(Tile(*size, 16, short=16, stored="f16", unroll=16) for size in SIZES[:2]),
    *(Tile(*size, 32, short=16, stored="f16", unroll=8) for size in SIZES[:1]),
    *(Tile(*size, 16, stored="f16") for size in SIZES[:1]),
]
DIRECT = [
    ConvolutionShape(64, 64, 320, 320),
    ConvolutionShape(64, 64, 320, 2560, gate=True),
    ConvolutionShape(64, 64, 1280, 320),
    ConvolutionShape(32, 32, 640, 640),
    ConvolutionShape(32, 32, 640, 5120, gate=True),
    ConvolutionShape(16, 16, 1280, 1280),
    ConvolutionShape(16, 16, 1280, 10240, gate=True),
    ConvolutionShape(16, 16, 2560, 1280, kernel=3),
    ConvolutionShape(8, 8, 1280, 1280, kernel=3),
]
TRANSFORMED = [
    ConvolutionShape(64, 64, 320, 320, kernel=3),
    ConvolutionShape(32, 32, 640, 640, kernel=3),
    ConvolutionShape(256, 256, 512, 512, kernel=3),
    ConvolutionShape(512, 512, 128, 128, kernel=3),
]
SMALL_DIRECT = [ConvolutionShape(8, 9, 64, 128, gate=True), ConvolutionShape(8, 8, 32, 64, kernel=3)]
SMALL_TRANSFORMED = [ConvolutionShape(8, 8, 32, 64, kernel=3)]
CASES = [
    *(
        Case("SD 2.1", heads, n, keys, size=64, count=5)
        for heads, n in ((5, 4096), (10, 1024), (20, 256))
        for keys in (n, 77)
    ),
    Case("full GPU", 10, 4096, 2048, size=64, count=0),
    *(
        Case("SD 1.5", 8, n, keys, size=size, count=5)
        for n, size in ((4096, 40), (1024, 80), (256, 160))
        for keys in (n, 77)
    ),
]
SMALL_CASES = [Case("SD 1.5", 2, 64, keys, size=size, count=5) for size in (40, 64) for keys in (64, 77)]


def main() -> None:
    """Measure, print, and write the JSON after each shape."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=90.0, help="half for products, half for attention")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    device = open_device()
    rows: list[dict[str, Any]] = []
    print(device.name, device.gpu, flush=True)
    for found in (
        *_products(device, options.seconds / 2, options.small),
        *_attention(device, options.seconds / 2, options.small),
    ):
        rows.append(found)
    save_figures(options.json, {"device": device.name, "rows": rows}, "msd/gpu", indent=1)


def _products(device: OpenDevice, seconds: float, small: bool) -> Iterator[dict[str, Any]]:
    end = time.monotonic() + seconds
    for shape in SMALL_TRANSFORMED if small else TRANSFORMED:
        yield from _shape(device, shape, _by_winograd, end)
    for shape in SMALL_DIRECT if small else DIRECT:
        yield from _shape(device, shape, _direct, end)


def _shape(
    device: OpenDevice, shape: ConvolutionShape, make: Callable[..., Variants], end: float
) -> Iterator[dict[str, Any]]:
    gpu, rng = device.gpu, np.random.default_rng(0)
    op, x, weights = _operation(shape, gpu, rng)
    at, expected = _sampled(op, x, weights, rng)
    variants = make(op, weights, gpu)
    trial = Trial(
        {op.x: x}, op.pixels * op.outputs, op.flops, variants, chosen=lambda y: [], at=at, expected=expected
    )
    names, rows = list(variants), list[dict[str, Any]]()
    together = 8 if op.pixels <= 4096 else 2
    for start in range(0, len(names), together):
        if time.monotonic() > end:
            print(f"{shape}: no time for {names[start:]}")
            break
        part = {name: variants[name] for name in names[start : start + together]}
        try:
            timed = _timed(device, gpu, trial, part, 10)
        except MsdError as problem:
            print(f"{shape} {list(part)}: {problem}")
            continue
        for name, (taken, db, _) in timed.items():
            rows.append(
                {
                    "shape": str(shape),
                    "variant": name,
                    "ms": [round(1e3 * s, 4) for s in taken],
                    "db": round(db, 1),
                }
            )
    print(shape)
    for row in sorted(rows, key=lambda row: sum(row["ms"])):
        rate = op.flops / sum(row["ms"]) / 1e9
        print(
            f"  {row['variant']:48} {sum(row['ms']):8.4f} ms {rate:6.1f} TF {row['db']:5.1f} dB {row['ms']}"
        )
    yield from rows


def _fits(tile: Tile, gpu: Gpu, gate: bool) -> bool:
    fits = tile.bytes <= gpu.workgroup_bytes and tile.threads <= gpu.invocations
    return fits and (not gate or tile.thread_columns == 8)


def _direct(op: Any, weights: Any, gpu: Gpu) -> Variants:
    variants: Variants = {}

    def tiled(tile: Tile, splits: int) -> Callable[[Value], list[Dispatch]]:
        return lambda y: tiled_convolution(replace(op, y=y), gpu, tile, splits)

    for tile in (*PLAIN, *SHORT, *DEEP):
        if not _fits(tile, gpu, bool(op.epilogue.gate)):
            continue
        groups = -(-op.pixels // tile.rows) * -(-op.filter.columns // tile.columns) * tile.threads / 256
        for splits in (1, 2, 3, 4, 6, 8, 12, 16):
            enough = splits == 1 or groups * splits <= 600
            worth = groups * splits >= 60 or splits in (1, 16)
            deep = op.filter.rows >= splits * 4 * tile.depth
            if enough and worth and deep and (tile not in DEEP or splits in (1, 2, 4, 8)):
                variants[f"{tile} / {splits}"] = tiled(tile, splits)
    return variants


def _by_winograd(op: Any, weights: Any, gpu: Gpu) -> Variants:
    variants: Variants = {}
    load, outer = weights.astype(np.float32), (weights.shape[0], weights.shape[3])
    filter_ = transformed_filter(lambda: load, *outer, 4, gpu, "w4", "int8")

    def winograds(tile: Tile) -> Callable[[Value], list[Dispatch]]:
        return lambda y: winograd(replace(op, y=y), filter_, 4, gpu, size=tile)

    few = tile_count(op, 4) * op.filter.columns < 1 << 17
    for tile in (*PLAIN, *(SHORT if few else SHORT[:5]), *DEEP):
        if _fits(tile, gpu, False):
            variants[f"winograd {tile}"] = winograds(tile)
    return variants


def _attention(device: OpenDevice, seconds: float, small: bool) -> Iterator[dict[str, Any]]:
    cases = SMALL_CASES if small else CASES
    sizes = list(dict.fromkeys(case.size for case in cases))
    for size in sizes:
        end = time.monotonic() + seconds / len(sizes)
        same = [case for case in cases if case.size == size]
        rows: list[dict[str, Any]] = []
        for tile in _flash_tiles(size, device.gpu):
            if time.monotonic() > end:
                print(f"heads of {size}: no time from {tile_name(tile)} on")
                break
            ops = [attention_of(case, device.gpu) for case in same]
            runs = [Run(case, op, flash(op, tile, device.gpu)) for case, op in zip(same, ops, strict=True)]
            try:
                found = list(measure_runs(runs, tile_name(tile), device, 5))
            except MsdError as problem:
                print(f"{tile_name(tile)}: {problem}")
                continue
            rows += [
                {
                    "shape": f"attention{r.case.name}",
                    "variant": r.way,
                    "ms": [round(r.ms, 4)],
                    "db": r.decibels,
                }
                for r in found
            ]
        for shape in dict.fromkeys(row["shape"] for row in rows):
            print(shape)
            for row in sorted((r for r in rows if r["shape"] == shape), key=lambda r: r["ms"][0])[:14]:
                print(f"  {row['variant']:48} {row['ms'][0]:8.4f} ms {row['db']:5.1f} dB", flush=True)
        yield from rows


def _flash_tiles(size: int, gpu: Gpu) -> Iterator[FlashTile]:
    widths = {40: (10, 5), 64: (16, 8), 80: (10, 20, 5), 160: (10, 20, 8)}[size]
    shapes = ((16, 4), (8, 8), (16, 8), (8, 4), (4, 8), (32, 4), (4, 4), (16, 2), (8, 2), (4, 2))
    for ahead, short, tried in ((True, True, shapes), (True, False, shapes[:4]), (False, True, shapes[:6])):
        for down, rows in tried:
            for across in widths:
                tile = FlashTile(across, down, rows, gpu.real, ahead=ahead, short_sums=short)
                fits = tile.bytes(size, size) <= gpu.workgroup_bytes and tile.vectors(size) * tile.rows <= 32
                if fits and 32 <= tile.invocations <= min(gpu.invocations, 512):
                    yield tile


if __name__ == "__main__":
    main()
