"""Time the tiles of FlashAttention by a GPU's matrix units or threads, at the sizes of several latents.

    PYTHONPATH=. python -m scripts.lab.bench_flash_tiles -o found.json --seconds 90 [--threads]

Needs numpy, wgpudawn and a GPU with such units, or with shader-f16. Times are medians by the GPU's own clock
behind other work, errors in dB to float64.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from msd.errors import MsdError
from msd.gpu.device import OpenDevice, open_device
from msd.gpu.gpu import Gpu
from msd.gpu.kernels.flash import flash
from msd.gpu.kernels.flash_choice import choose_across, choose_tile
from msd.gpu.kernels.flash_matrix import SHAPES, choose_matrix_tile, flash_by_matrices
from msd.gpu.kernels.flash_matrix_tile import FlashMatrixTile
from msd.gpu.kernels.flash_pieces import divides
from msd.gpu.kernels.flash_tile import FlashTile
from msd.gpu.operations import Attention
from msd.gpu.value import Dispatch
from scripts.figures import save_figures
from scripts.lab.attention_cases import Case
from scripts.lab.bench_attention import Run, attention_of, checked, heads_of, measure, numbers
from scripts.lab.bench_dawn import PACKAGES
from scripts.lab.bench_engine import described
from scripts.lab.tile_options import by_threads, tile_options

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
DOWN_AND_ROWS = ((16, 4), (8, 4), (16, 2), (4, 4))
"""Of threads' tiles."""
PIECES = (1, 2, 3, 4, 6)
FEW, REPEATS = 512, 5
"""Keys that are not divided, and the runs of a median."""


def main() -> None:
    """Measure, print, and write the JSON after each case."""
    options = tile_options(__doc__, 90)
    device = open_device(api="dawn")
    if options.threads:
        device = by_threads(device)
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


def _tiles(op: Attention, gpu: Gpu) -> list[FlashMatrixTile | FlashTile]:
    """Return the chosen tile, then those that fit."""
    chosen = choose_matrix_tile(op, gpu) or choose_tile(op, gpu)
    assert chosen is not None, "every case has a tile"
    pieces = PIECES if op.keys > FEW else PIECES[:1]
    fitting = [
        replace(tile, pieces=n)
        for tile in (_matrix_tiles(op, gpu) if gpu.matrix else _thread_tiles(op))
        if tile.bytes(op.size, op.value_size) <= gpu.workgroup_bytes
        for n in pieces
    ]
    return list(dict.fromkeys([chosen, *(tile for tile in fitting if divides(op, tile, gpu))]))


def _matrix_tiles(op: Attention, gpu: Gpu) -> Iterator[FlashMatrixTile]:
    assert gpu.matrix is not None, "the adapter has matrix units"
    for sizes in TRIED:
        tile = FlashMatrixTile(*sizes[:3], gpu.matrix, *sizes[3:])
        if tile.whole and tile.threads <= gpu.invocations and tile.rows * op.size <= 32 * 96:
            yield tile


def _thread_tiles(op: Attention) -> Iterator[FlashTile]:
    widest = choose_across(op.value_size)
    for across in (widest, widest // 2):
        yield from (FlashTile(across, *shape, "f16", short_sums=True) for shape in DOWN_AND_ROWS)


def _dispatches(op: Attention, tile: FlashMatrixTile | FlashTile, gpu: Gpu) -> list[Dispatch]:
    if isinstance(tile, FlashTile):
        return flash(op, tile, gpu)
    return flash_by_matrices(op, tile, gpu)


def _measured(device: OpenDevice, case: Case) -> Iterator[dict[str, Any]]:
    gpu = device.gpu
    plain = attention_of(case, gpu)
    tiles = _tiles(plain, gpu)
    ops = [replace(plain, y=heads_of(f"y{n}", gpu, case, case.queries)) for n in range(len(tiles))]
    runs = [Run(case, op, _dispatches(op, tile, gpu)) for op, tile in zip(ops, tiles, strict=True)]
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
