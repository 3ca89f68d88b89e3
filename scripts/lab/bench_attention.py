"""Measure attention and normalisation on this machine's GPU, at the sizes of Stable Diffusion 1.5 and 2.1.

python -m scripts.lab.bench_attention --json attention.json

Needs numpy, wgpu and a GPU with timestamp queries. Every attention runs in the tiles of FlashAttention that
fit, partially fused and plain; every norm as it is chosen. Times are medians of the GPU's own clock.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from msd.errors import MsdError
from msd.gpu.assemble import Named, assemble
from msd.gpu.device import OpenDevice, open_device
from msd.gpu.gpu import BYTES, Gpu
from msd.gpu.kernels.attention import LARGEST_FLASH, attend_partially, attend_plainly
from msd.gpu.kernels.flash import flash
from msd.gpu.kernels.flash_choice import choose_across, choose_tile
from msd.gpu.kernels.flash_tile import FlashTile
from msd.gpu.kernels.normalization import normalize_groups, normalize_layers
from msd.gpu.operations import Attention, GroupNorm, Heads, LayerNorm
from msd.gpu.session import NUMPY, Session
from msd.gpu.value import Dispatch, Value
from msd.graph.ir.weights import Array
from scripts.figures import save_figures
from scripts.lab.attention_cases import Case, attention_cases, norm_cases

SHAPES = ((16, 4), (8, 4), (8, 8), (4, 4), (4, 8), (16, 8), (16, 2), (32, 4), (8, 2))
"""Invocations down and rows of each: the tiles to try, the likeliest first."""
SAMPLE = 8
"""Queries of the first and last head that NumPy checks."""


@dataclass(frozen=True)
class AttentionRow:
    """What was measured of a case: `way` is plain, partial or a tile; of one run ms, TFLOPS, dB to NumPy."""

    case: Case
    way: str
    ms: float
    tflops: float
    decibels: float
    chosen: bool = False


@dataclass(frozen=True)
class NormRow:
    """What was measured of a norm; GB/s count the image read and written once."""

    kind: str
    pixels: int
    channels: int
    count: int
    ms: float
    gbs: float
    decibels: float


def heads_of(name: str, gpu: Gpu, case: Case, rows: int) -> Heads:
    """Return rows x heads x size, as a projection writes them."""
    channels = case.heads * case.size
    return Heads(
        value=Value(name, gpu.real, rows * channels),
        offset=0,
        batch=rows * channels,
        head=case.size,
        row=channels,
    )


def attention_of(case: Case, gpu: Gpu) -> Attention:
    """Return the attention of a case, batch 1."""
    return Attention(
        q=heads_of("q", gpu, case, case.queries),
        k=heads_of("k", gpu, case, case.keys),
        v=heads_of("v", gpu, case, case.keys),
        y=heads_of("y", gpu, case, case.queries),
        batch=1,
        heads=case.heads,
        queries=case.queries,
        keys=case.keys,
        size=case.size,
        value_size=case.size,
        scale=case.size**-0.5,
    )


def tiles_of(cases: Sequence[Case], gpu: Gpu, quick: bool) -> list[FlashTile]:
    """Return the tiles to try for cases with heads of one size: those chosen, then others that fit."""
    size = cases[0].size
    chosen = [choose_tile(attention_of(case, gpu), gpu) for case in cases]
    widths = [n for n in (16, 8, 10, 5, 20, 4) if size // 4 % n == 0] or [choose_across(size)]
    variants = [(gpu.real, True, False), ("f32", True, False), (gpu.real, False, False)]
    variants += [("f16", True, True)] if gpu.half else []
    tried = [
        FlashTile(across, down, rows, stored, ahead=ahead, short_sums=short)
        for stored, ahead, short in dict.fromkeys(variants)
        for down, rows in SHAPES[: 3 if quick else None]
        for across in widths[: 2 if quick else None]
    ]
    fitting = (
        tile
        for tile in tried
        if tile.bytes(size, size) <= gpu.workgroup_bytes
        and tile.vectors(size) * tile.rows <= 32
        and 32 <= tile.invocations <= gpu.invocations
    )
    return list(dict.fromkeys([*(tile for tile in chosen if tile is not None), *fitting]))


@dataclass(frozen=True)
class Run:
    """What the dispatches of one case are, by its operation."""

    case: Case
    op: Attention
    dispatches: Sequence[Dispatch]


def numbers(value: Value, seed: int) -> Array:
    """Return normal numbers for a value, in its own type."""
    array = np.random.default_rng(seed).standard_normal(value.count, np.float32)
    return array.astype(NUMPY[value.element])


def measure(
    dispatches: Sequence[Dispatch],
    inputs: Mapping[Value, Array],
    outputs: Sequence[Value],
    device: OpenDevice,
    runs: int,
) -> tuple[list[float], list[Array]]:
    """Return the median seconds of each dispatch, and the outputs in f64."""
    named = {str(i): Named(v, (v.count,), str(a.dtype)) for i, (v, a) in enumerate(inputs.items())}
    wanted = {str(i): Named(v, (v.count,), "float32") for i, v in enumerate(outputs)}
    with Session(assemble(dispatches, named, wanted, device.gpu), device) as session:
        arrays = {str(i): array for i, array in enumerate(inputs.values())}
        found = list(session.run(arrays).values())
        times = [busy_time(session, arrays) for _ in range(runs + 2)][2:]
    return [median(column) for column in zip(*times, strict=True)], found


BUSY_SECONDS = 0.03


def busy_time(session: Session, inputs: dict[str, Array]) -> list[float]:
    """Return the seconds of each dispatch behind others: a GPU that has been idle has a slow clock."""
    session.write(inputs)
    end = time.monotonic() + BUSY_SECONDS
    while time.monotonic() < end:
        session.submit()
        session.submit()
        session.wait()
    for _ in range(4):
        session.submit()
    return session.time(inputs)


def measure_runs(runs: Sequence[Run], way: str, device: OpenDevice, repeats: int) -> Iterator[AttentionRow]:
    """Yield a row for each case, all measured in one program, so that equal shaders are compiled once."""
    inputs = {
        heads.value: numbers(heads.value, seed)
        for run in runs
        for seed, heads in enumerate((run.op.q, run.op.k, run.op.v))
    }
    dispatches = [dispatch for run in runs for dispatch in run.dispatches]
    seconds, found = measure(dispatches, inputs, [run.op.y.value for run in runs], device, repeats)
    start = 0
    for run, y in zip(runs, found, strict=True):
        spent = sum(seconds[start : start + len(run.dispatches)])
        start += len(run.dispatches)
        tflops = run.op.flops / spent / 1e12
        yield AttentionRow(run.case, way, 1e3 * spent, tflops, decibels=checked(run, inputs, y))


def checked(run: Run, inputs: Mapping[Value, Array], y: Array) -> float:
    """Return the dB of a sample of queries of the first and the last head."""
    case, shape = run.case, (-1, run.case.heads, run.case.size)
    q, k, v = (inputs[h.value].astype(np.float64).reshape(shape) for h in (run.op.q, run.op.k, run.op.v))
    rows = np.linspace(0, case.queries - 1, SAMPLE).astype(int)
    results, expected = [], []
    for head in (0, case.heads - 1):
        scores = q[rows, head] @ k[:, head].T * run.op.scale
        powers = np.exp(scores - scores.max(1, keepdims=True))
        expected.append(powers / powers.sum(1, keepdims=True) @ v[:, head])
        results.append(y.reshape(shape)[rows, head])
    return decibels(np.stack(results), np.stack(expected))


def decibels(result: Array, expected: Array) -> float:
    """Return the signal-to-noise ratio."""
    noise = np.square(result.astype(np.float64) - expected).sum()
    return round(float(10 * np.log10(np.square(expected).sum() / max(noise, 1e-300))), 1)


def flash_rows(
    cases: Sequence[Case], device: OpenDevice, quick: bool, seconds: float
) -> Iterator[AttentionRow]:
    """Yield a row for each case and tile; cases with heads of one size share a program."""
    sizes = [size for size in dict.fromkeys(case.size for case in cases) if size <= LARGEST_FLASH]
    for size in sizes:
        same = [case for case in cases if case.size == size]
        end = time.monotonic() + seconds / len(sizes)
        tiles = tiles_of(same, device.gpu, quick)
        for number, tile in enumerate(tiles):
            if time.monotonic() > end:
                print(f"heads of {size}: {len(tiles) - number} tiles were not tried for want of time")
                break
            ops = [attention_of(case, device.gpu) for case in same]
            runs = [Run(case, op, flash(op, tile, device.gpu)) for case, op in zip(same, ops, strict=True)]
            for row in tried_runs(runs, tile_name(tile), device):
                yield replace(row, chosen=choose_tile(attention_of(row.case, device.gpu), device.gpu) == tile)


def tried_runs(runs: Sequence[Run], way: str, device: OpenDevice) -> list[AttentionRow]:
    """Return the rows of `measure_runs`, or say why the GPU refuses them and return none."""
    try:
        return list(measure_runs(runs, way, device, 10))
    except MsdError as problem:
        print(f"{way}, {runs[0].case.name}: {problem}")
        return []


def tile_name(tile: FlashTile) -> str:
    """Return a tile's invocations across x down, rows of each, what it stores, and its variants."""
    variants = ", ahead" * tile.ahead + ", short" * tile.short_sums
    return f"flash {tile.across:2} x {tile.down:2}, {tile.rows} rows, {tile.stored}{variants}"


def other_rows(cases: Iterable[Case], device: OpenDevice) -> Iterator[AttentionRow]:
    """Yield rows of the partially fused and the plain attention."""
    for case in cases:
        for way, attend in (("partial", attend_partially), ("plain", attend_plainly)):
            op = attention_of(case, device.gpu)
            yield from tried_runs([Run(case, op, attend(op, device.gpu))], way, device)


def norm_rows(device: OpenDevice) -> Iterator[NormRow]:
    """Yield a row for each norm."""
    for (kind, pixels, channels), count in norm_cases().items():
        x, y = (Value(name, device.gpu.real, pixels * channels) for name in "xy")
        array = numbers(x, 0) + NUMPY[x.element](3)
        if kind == "group":
            group = GroupNorm(
                x=x,
                y=y,
                batch=1,
                pixels=pixels,
                channels=channels,
                groups=32,
                epsilon=1e-5,
                activation="SILU",
            )
            dispatches = normalize_groups(group, device.gpu)
        else:
            dispatches = normalize_layers(
                LayerNorm(x=x, y=y, rows=pixels, channels=channels, epsilon=1e-5), device.gpu
            )
        seconds, (found,) = measure(dispatches, {x: array}, [y], device, 15)
        spent = sum(seconds)
        yield NormRow(
            kind=kind,
            pixels=pixels,
            channels=channels,
            count=count,
            ms=1e3 * spent,
            gbs=2 * x.count * BYTES[x.element] / spent / 1e9,
            decibels=decibels(found, normalized(kind, array.reshape(pixels, channels))),
        )


def normalized(kind: str, x: Array) -> Array:
    """Return NumPy's group norm with SiLU, or layer norm."""
    wide = x.astype(np.float64).reshape((len(x), 32, -1) if kind == "group" else (len(x), 1, -1))
    axes = (0, 2) if kind == "group" else (2,)
    mean, variance = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    plain: Array = ((wide - mean) / np.sqrt(variance + 1e-5)).reshape(-1)
    return plain / (1 + np.exp(-plain)) if kind == "group" else plain


def tell_attention(rows: Sequence[AttentionRow]) -> None:
    """Print each case's ways, the fastest first, with the chosen tile marked."""
    for case in dict.fromkeys(row.case for row in rows):
        print(f"\n{case.name}")
        mine = sorted((row for row in rows if row.case == case), key=lambda row: row.ms)
        for row in mine[:6] + [row for row in mine[6:] if row.chosen or not row.way.startswith("flash")]:
            mark = " chosen" if row.chosen else ""
            print(f"  {row.way:40} {row.ms:8.3f} ms {row.tflops:6.2f} TFLOPS {row.decibels:6.1f} dB{mark}")


def totals(rows: Sequence[AttentionRow]) -> dict[str, dict[str, float]]:
    """Return the ms of an evaluation's attentions, by model: each way, the chosen tiles, and the fastest."""
    sums: dict[str, dict[str, float]] = {}
    for case in dict.fromkeys(row.case for row in rows):
        mine = [row for row in rows if row.case == case]
        ways = {
            "chosen flash": [row.ms for row in mine if row.chosen],
            "fastest flash": [row.ms for row in mine if row.way.startswith("flash")],
            "partial": [row.ms for row in mine if row.way == "partial"],
            "plain": [row.ms for row in mine if row.way == "plain"],
        }
        model = sums.setdefault(case.model, {})
        for way, found in ways.items():
            if found:
                model[way] = round(model.get(way, 0.0) + case.count * min(found), 4)
    return sums


def best_overall(rows: Sequence[AttentionRow]) -> Iterator[tuple[int, str, float]]:
    """Yield, for each size of heads, the five tiles with the least time over both models' evaluations."""
    for size in dict.fromkeys(row.case.size for row in rows):
        flashes = [row for row in rows if row.case.size == size and row.way.startswith("flash")]
        spent = {
            way: sum(row.ms * row.case.count for row in flashes if row.way == way)
            for way in {row.way for row in flashes}
        }
        yield from ((size, way, spent[way]) for way in sorted(spent, key=lambda w: spent[w])[:5])


def main() -> None:
    """Print the measurements, and write them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer tiles and sizes")
    parser.add_argument("--float32", action="store_true", help="without shader-f16")
    parser.add_argument("--seconds", type=float, default=160.0, help="for tiles, shared by sizes of heads")
    parser.add_argument("--enough-workgroups", type=int, help="instead of the device's")
    asked = parser.parse_args()
    device = open_device(half=not asked.float32)
    if asked.enough_workgroups:
        device = replace(device, gpu=replace(device.gpu, enough_workgroups=asked.enough_workgroups))
    print(device.name, device.gpu)
    norms = list(norm_rows(device))
    for row in norms:
        print(
            f"{row.kind} norm {row.pixels:4} x {row.channels:4}, {row.count:2}: {row.ms:7.4f} ms "
            f"{row.gbs:7.0f} GB/s {row.decibels:6.1f} dB"
        )
    spent = {
        kind: round(sum(r.ms * r.count for r in norms if r.kind == kind), 4) for kind in ("group", "layer")
    }
    print("norms of an evaluation, ms:", spent)
    cases = [case for case in attention_cases() if not asked.quick or case.queries >= 1024]
    rows = [*flash_rows(cases, device, asked.quick, asked.seconds), *other_rows(cases, device)]
    tell_attention(rows)
    print()
    for size, way, ms in best_overall(rows):
        print(f"heads of {size:3}: {way:40} {ms:8.3f} ms in all")
    print("attention of an evaluation, ms:", json.dumps(totals(rows), indent=1))
    if asked.json:
        write(asked.json, device, norms, spent, rows)


def write(
    path: Path,
    device: OpenDevice,
    norms: Sequence[NormRow],
    spent: Mapping[str, float],
    rows: Sequence[AttentionRow],
) -> None:
    """Write all rows and totals."""
    report: dict[str, Any] = {
        "device": device.name,
        "gpu": asdict(device.gpu),
        "norms of an evaluation, ms": spent,
        "attention of an evaluation, ms": totals(rows),
        "norms": [asdict(row) for row in norms],
        "attention": [asdict(row) for row in rows],
    }
    save_figures(path, report, "msd/gpu", indent=1)


if __name__ == "__main__":
    main()
