"""Time the tiles of FlashAttention by a GPU's matrix units, at the sizes of several latents.

    PYTHONPATH=. python -m scripts.lab.bench_flash_tiles -o found.json --seconds 90

Needs numpy, wgpudawn and a GPU with such units. Times are medians by the GPU's own clock behind other work,
errors in dB to float64.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from msd.errors import MsdError
from msd.gpu.device import OpenDevice, open_device
from msd.gpu.gpu import Gpu
from msd.gpu.kernels.flash_matrix import SHAPES, choose_matrix_tile, flash_by_matrices
from msd.gpu.kernels.flash_matrix_tile import FlashMatrixTile
from msd.gpu.operations import Attention
from scripts.figures import save_figures
from scripts.lab.attention_cases import Case
from scripts.lab.bench_attention import Run, attention_of, checked, heads_of, measure, numbers
from scripts.lab.bench_dawn import PACKAGES
from scripts.lab.bench_engine import described

SIZES = [
    *(("SD 2.1", 5, 4096, 4096, 64, 5), ("SD 2.1", 5, 9216, 9216, 64, 5)),
    *(("SDXL", 20, 1024, 1024, 64, 60), ("SDXL", 10, 4096, 4096, 64, 10)),
    *(("SD 2.1", 10, 2304, 2304, 64, 5), ("SD 2.1", 10, 1024, 1024, 64, 5)),
    *(("SD 2.1", 20, 576, 576, 64, 5), ("SD 2.1", 20, 256, 256, 64, 5)),
    *(("SDXL", 20, 1024, 77, 64, 60), ("SD 2.1", 5, 9216, 77, 64, 5)),
    *(("SD 1.5", 8, 6144, 6144, 40, 5), ("SD 1.5", 8, 4096, 4096, 40, 5)),
    *(("SD 1.5", 8, 1024, 1024, 80, 5), ("SD 2.1", 5, 3840, 3840, 64, 5)),
    *(("SD 1.5", 8, 1536, 1536, 80, 5), ("SD 1.5", 8, 256, 256, 160, 5)),
    *(("SD 2.1", 10, 960, 960, 64, 5), ("SD 2.1", 5, 4096, 77, 64, 5)),
]
"""Model, heads, queries, keys, a head's size, and how often. The most important first: time may not last."""
CASES = [Case(*sizes) for sizes in SIZES]
OTHERS = [
    (128, 32, 32, 1, 2),
    (128, 16, 32, 1, 2),
    (256, 16, 32, 1, 2),
    (192, 16, 32, 1, 2),
    (64, 32, 16, 1, 1),
]
TRIED = [*SHAPES, *OTHERS]
PIECES = (1, 2, 3, 4, 6)
FEW, REPEATS = 512, 5
"""Keys that are not divided, and the runs of a median."""


def main() -> None:
    """Measure, print, and write the JSON after each case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=90.0, help="begin no further case after this time")
    options = parser.parse_args()
    device = open_device(api="dawn")
    report = described(PACKAGES) | {"device": device.name}
    begun = time.monotonic()
    for number, case in enumerate(CASES):
        if time.monotonic() - begun > options.seconds:
            print(f"no time for {', '.join(each.name for each in CASES[number:])}")
            break
        rows = list(_measured(device, case))
        report["rows"] += rows
        save_figures(options.output, report, "msd/gpu", indent=1)
        _show(case, rows, time.monotonic() - begun)


def _tiles(op: Attention, gpu: Gpu) -> list[FlashMatrixTile]:
    """Return the chosen tile, then those that fit."""
    unit, chosen = gpu.matrix, choose_matrix_tile(op, gpu)
    assert unit is not None, "the adapter has no matrix units"
    assert chosen is not None, "every case has a tile"
    tiles = [FlashMatrixTile(*sizes[:3], unit, *sizes[3:]) for sizes in TRIED]
    fitting = [
        replace(tile, pieces=pieces)
        for tile in tiles
        if tile.whole and tile.threads <= gpu.invocations
        if tile.bytes(op.size, op.value_size) <= gpu.workgroup_bytes and tile.rows * op.size <= 32 * 96
        for pieces in (PIECES if op.keys > FEW else PIECES[:1])
    ]
    return list(dict.fromkeys([chosen, *fitting]))


def _measured(device: OpenDevice, case: Case) -> Iterator[dict[str, Any]]:
    gpu = device.gpu
    plain = attention_of(case, gpu)
    tiles = _tiles(plain, gpu)
    ops = [replace(plain, y=heads_of(f"y{n}", gpu, case, case.queries)) for n in range(len(tiles))]
    runs = [Run(case, op, flash_by_matrices(op, tile, gpu)) for op, tile in zip(ops, tiles, strict=True)]
    inputs = {heads.value: numbers(heads.value, n) for n, heads in enumerate((plain.q, plain.k, plain.v))}
    dispatches = [dispatch for run in runs for dispatch in run.dispatches]
    try:
        seconds, found = measure(dispatches, inputs, [op.y.value for op in ops], device, REPEATS)
    except MsdError as problem:
        print(f"{case.name}: {str(problem)[:600]}", flush=True)
        return
    for number, (tile, run, y) in enumerate(zip(tiles, runs, found, strict=True)):
        mine, seconds = seconds[: len(run.dispatches)], seconds[len(run.dispatches) :]
        ms = 1e3 * sum(mine)
        yield {
            "case": case.name,
            "tile": str(tile),
            "chosen": number == 0,
            "ms": round(ms, 5),
            "parts": [round(1e3 * s, 5) for s in mine],
            "tflops": round(plain.flops / ms / 1e9, 1),
            "db": checked(run, inputs, y) if number % 8 == 0 else None,
        }


def _show(case: Case, rows: list[dict[str, Any]], seconds: float) -> None:
    known = [row["db"] for row in rows if row["db"] is not None]
    print(f"{case.name}: {len(rows)} tiles, at least {min(known, default=np.nan)} dB, {seconds:.0f} s")
    best = sorted(rows, key=lambda row: row["ms"])
    for row in best[:6] + [row for row in best if row["chosen"]]:
        name = f"{'chosen ' * row['chosen']}{row['tile']}"
        print(f"  {name:70} {row['ms']:8.4f} ms {row['tflops']:6.1f} TFLOPS {row['parts']}", flush=True)


if __name__ == "__main__":
    main()
