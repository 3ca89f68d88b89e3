"""Time every convolution and attention product of Stable Diffusion on this machine's GPU, in each variant.

    PYTHONPATH=. python scripts/lab/bench_kernels.py [--quick] [--json kernels.json]

Needs numpy and wgpu. Weights are random int8, activations f16 where the GPU has them; a time is the median of
ten by timestamp queries, and the error of a variant is that of sixteen pixels (rows), in dB to float64.
`chosen` marks the variant that convolve or multiply takes for a GPU that `--workgroups` fill.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from msd.gpu.assemble import Named, assemble
from msd.gpu.device import OpenDevice, open_device
from msd.gpu.gpu import Gpu
from msd.gpu.kernels.convolution import convolve
from msd.gpu.kernels.filters import pack_filter, vector_value
from msd.gpu.kernels.matrix_tile import MatrixTile
from msd.gpu.kernels.product import multiply, tiled_product
from msd.gpu.kernels.tile import AnyTile
from msd.gpu.kernels.tile_choice import EFFICIENCY, matrix_tiles
from msd.gpu.kernels.tiled_convolution import tiled_convolution
from msd.gpu.kernels.winograd import choose_winograd, transformed_filter, winograd
from msd.gpu.operations import Conv2D, Epilogue, Filter, Matrices, Product
from msd.gpu.session import Session
from msd.gpu.value import Dispatch, Value
from scripts.figures import save_figures
from scripts.lab.bench_attention import busy_time
from scripts.lab.kernel_shapes import ConvolutionShape, ProductShape, networks

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array

SAMPLES = 16
TOGETHER = 5
"""The variants of one session, whose results are in GPU memory at the same time."""

Variants = dict[str, Callable[[Value], list[Dispatch]]]
Row = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """A shape's inputs, variants, and the expected numbers at sampled places of its result."""

    inputs: dict[Value, Array]
    count: int
    flops: int
    variants: Variants
    chosen: Callable[[Value], list[Dispatch]]
    at: Array
    expected: Array


def main() -> None:
    """Measure, print a table for each network, and write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="SD 2.1's U-Net, and chosen variants only")
    parser.add_argument("--workgroups", type=int, default=264, help="how many workgroups fill the GPU")
    parser.add_argument("--full", action="store_true", help="f32 activations although the GPU has f16")
    parser.add_argument("--only", default="", help="shapes whose name contains this")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=330, help="begin no further shape after this time")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = open_device(half=not options.full)
    gpu = replace(device.gpu, enough_workgroups=options.workgroups)
    print(f"{device.name}, {gpu}", flush=True)
    rows = _measured(device, gpu, options)
    for network in dict.fromkeys(name for name, _ in _wanted(options)):
        _print_total(network, rows)
    if options.json:
        save_figures(
            options.json, {"device": device.name, "gpu": str(gpu), "rows": rows}, "msd/gpu", indent=1
        )


def _wanted(options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    for network, shapes in networks().items():
        if not options.quick or network == "SD 2.1 U-Net":
            yield from ((network, shape) for shape in shapes if options.only in str(shape))


def _measured(device: OpenDevice, gpu: Gpu, options: argparse.Namespace) -> list[Row]:
    """Return a row for each shape and variant; a shape of several networks is measured once."""
    begun = time.monotonic()
    rows: list[Row] = []
    for _, shape in _wanted(options):
        if any(row["shape"] == str(shape) for row in rows):
            continue
        if time.monotonic() - begun > options.seconds:
            print(f"no time for {shape}")
            continue
        made = _convolution(shape, gpu) if isinstance(shape, ConvolutionShape) else _product(shape, gpu)
        found = _rows(device, gpu, str(shape), made, options)
        rows += found
        _print_rows(found)
    return rows


def _rows(device: OpenDevice, gpu: Gpu, shape: str, trial: Trial, options: argparse.Namespace) -> list[Row]:
    variants = {} if options.quick else dict(trial.variants)
    if options.quick:
        variants |= {name: make for name, make in trial.variants.items() if name == "winograd 4"}
    variants = {"chosen": trial.chosen} | variants
    rows: list[Row] = []
    names = list(variants)
    for start in range(0, len(names), TOGETHER):
        part = {name: variants[name] for name in names[start : start + TOGETHER]}
        for name, (seconds, db, kernels) in _timed(device, gpu, trial, part, options.repeats).items():
            rate = trial.flops / sum(seconds) / 1e12
            parts = [round(s * 1e3, 4) for s in seconds]
            row = {"shape": shape, "variant": name, "ms": sum(seconds) * 1e3, "tflops": rate, "db": db}
            rows.append(row | {"kernels": kernels, "parts": parts})
    return rows


def _timed(
    device: OpenDevice, gpu: Gpu, trial: Trial, variants: Variants, repeats: int
) -> dict[str, tuple[list[float], float, str]]:
    """Return the seconds of each dispatch of each variant, and its error."""
    made: dict[str, tuple[Value, list[Dispatch]]] = {}
    for name, make in variants.items():
        y = Value(name, gpu.real, trial.count)
        made[name] = (y, make(y))
    dispatches = [dispatch for _, part in made.values() for dispatch in part]
    named = {str(i): Named(v, (v.count,), "float32") for i, v in enumerate(trial.inputs)}
    outputs = {name: Named(y, (y.count,), "float32") for name, (y, _) in made.items()}
    program = assemble(dispatches, named, outputs, gpu)
    inputs = dict(zip(named, trial.inputs.values(), strict=True))
    with Session(program, device) as session:
        seconds = np.median([busy_time(session, inputs) for _ in range(repeats + 2)][2:], axis=0)
        got = {name: session.run(inputs)[name][trial.at] for name in list(made)[:1]}
        got |= {name: _read(session, program.outputs[name])[trial.at] for name in made}
    results, first = {}, 0
    for name, (_, part) in made.items():
        mine = [float(s) for s in seconds[first : first + len(part)]]
        first += len(part)
        kernels = " + ".join(dispatch.kernel.name for dispatch in part)
        results[name] = (mine, _decibels(trial.expected, got[name]), kernels)
    return results


def _read(session: Session, port: Any) -> Array:
    kind = np.float16 if port.element == "f16" else np.float32
    return session.read(port.place).view(kind)[: port.shape[0]]


def _decibels(expected: Array, got: Array) -> float:
    error = np.square(expected - got.astype(np.float64)).sum()
    return float(10 * np.log10(np.square(expected).sum() / max(error, 1e-300)))


def _convolution(shape: ConvolutionShape, gpu: Gpu) -> Trial:
    rng = np.random.default_rng(0)
    op, x, weights = _operation(shape, gpu, rng)
    at, expected = _sampled(op, x, weights, rng)

    def tiled(tile: Any, splits: int) -> Callable[[Value], list[Dispatch]]:
        return lambda y: tiled_convolution(replace(op, y=y), gpu, tile, splits)

    def by_winograd(filter_: Filter, size: int) -> Callable[[Value], list[Dispatch]]:
        return lambda y: winograd(replace(op, y=y), filter_, size, gpu)

    variants: Variants = {}
    outer, wide = (weights.shape[0], weights.shape[3]), weights.astype(np.float32)
    every: list[AnyTile] = [*EFFICIENCY, *matrix_tiles(gpu)]
    for tile in every:
        usable = tile.threads <= gpu.invocations and tile.bytes <= gpu.workgroup_bytes
        gated = not shape.gate or isinstance(tile, MatrixTile) or tile.thread_columns == 8
        if not usable or not gated or op.pixels <= 4 or shape.outputs <= 8:
            continue
        groups = -(-op.pixels // tile.rows) * -(-op.filter.columns // tile.columns)
        variants[str(tile)] = tiled(tile, 1)
        for splits in (2, 4, 8):
            if (
                groups * splits <= 4 * gpu.enough_workgroups
                and tile.rows >= 64
                and op.filter.rows >= splits * 64
            ):
                variants[f"{tile} split {splits}"] = tiled(tile, splits)
    if shape.kernel == 3 and shape.stride == 1 and shape.outputs > 8 and shape.channels > 8:
        for size in (2, 4, 6, 8):
            filter_ = transformed_filter(lambda: wide, *outer, size, gpu, f"w{size}")
            variants[f"winograd {size}"] = by_winograd(filter_, size)

    def chosen(y: Value) -> list[Dispatch]:
        size = choose_winograd(op, gpu)
        return variants[f"winograd {size}"](y) if size else convolve(replace(op, y=y), gpu)

    count = op.pixels * op.outputs
    return Trial({op.x: x}, count, op.flops, variants, chosen=chosen, at=at, expected=expected)


def _operation(shape: ConvolutionShape, gpu: Gpu, rng: np.random.Generator) -> tuple[Conv2D, Array, Array]:
    pixels = shape.height * shape.width
    x = rng.standard_normal((pixels, shape.channels), np.float32)
    outputs = shape.outputs
    weights = rng.integers(-127, 128, (outputs, shape.kernel, shape.kernel, shape.channels), np.int8)
    depth = weights[0].size
    scale = np.full(outputs, 1 / 73 / depth**0.5, np.float32)
    high, wide = (n * shape.upsample // shape.stride for n in (shape.height, shape.width))
    op = Conv2D(
        x=Value("x", gpu.real, x.size),
        filter=pack_filter(lambda: weights, "int8", depth, outputs, scale, gpu, "w"),
        y=Value("y", gpu.real, 0),
        batch=1,
        height=shape.height,
        width=shape.width,
        channels=shape.channels,
        out_height=high,
        out_width=wide,
        kernel=(shape.kernel, shape.kernel),
        stride=(shape.stride, shape.stride),
        pad=(shape.kernel // 2, shape.kernel // 2),
        upsample=shape.upsample,
        epilogue=Epilogue(
            vector_value(rng.standard_normal(outputs), "bias"), gate="TANH_GELU" if shape.gate else None
        ),
    )
    kind = np.float16 if gpu.half else np.float32
    return op, x.astype(kind), weights


def _sampled(op: Conv2D, x: Array, weights: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return indices of all channels of some pixels of the result, and the numbers there in float64."""
    pixels = rng.choice(op.pixels, min(SAMPLES, op.pixels), replace=False)
    image = x.reshape(op.height, op.width, op.channels)
    taps = np.zeros((len(pixels), *op.kernel, op.channels))
    for i, pixel in enumerate(pixels):
        for ky in range(op.kernel[0]):
            for kx in range(op.kernel[1]):
                y = pixel // op.out_width * op.stride[0] + ky - op.pad[0]
                across = pixel % op.out_width * op.stride[1] + kx - op.pad[1]
                if 0 <= y < op.height * op.upsample and 0 <= across < op.width * op.upsample:
                    taps[i, ky, kx] = image[y // op.upsample, across // op.upsample]
    sums = taps.reshape(len(pixels), -1) @ weights.reshape(len(weights), -1).T.astype(np.float64)
    scale, bias = op.filter.scale, op.epilogue.bias
    sums = sums * scale.load() + bias.load()  # type: ignore[union-attr,misc]
    if op.epilogue.gate:
        blocks = sums.reshape(len(pixels), -1, 2, 4)
        gate = blocks[:, :, 1]
        gelu = gate / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        sums = (blocks[:, :, 0] * gelu).reshape(len(pixels), -1)
    return pixels[:, None] * op.outputs + np.arange(op.outputs), sums


def _product(shape: ProductShape, gpu: Gpu) -> Trial:
    rng = np.random.default_rng(0)
    kind = np.float16 if gpu.half else np.float32
    op, a, b = _product_operation(shape, gpu, rng, kind)
    n = rng.integers(op.batch, size=SAMPLES)
    i = rng.integers(op.rows, size=SAMPLES)
    j = np.arange(op.columns)
    left = _elements(a, op.a, n[:, None], i[:, None], np.arange(op.depth))
    depth = np.arange(op.depth)[:, None]
    right = np.stack([_elements(b, op.b, one, depth, j) for one in n])
    expected = np.einsum("sk,skj->sj", left, right) * op.scale
    at = n[:, None] * op.y.batch + i[:, None] * op.y.row + j * op.y.column

    def tiled(tile: Any) -> Callable[[Value], list[Dispatch]]:
        return lambda y: tiled_product(replace(op, y=replace(op.y, value=y)), gpu, tile)

    every: list[AnyTile] = [*EFFICIENCY, *matrix_tiles(gpu)]
    tiles = [t for t in every if t.threads <= gpu.invocations and t.bytes <= gpu.workgroup_bytes]
    variants: Variants = {str(tile): tiled(tile) for tile in tiles}
    inputs = {op.a.value: a, op.b.value: b}
    count = op.batch * op.rows * op.columns
    return Trial(
        inputs,
        count,
        op.flops,
        variants,
        chosen=lambda y: multiply(replace(op, y=replace(op.y, value=y)), gpu),
        at=at,
        expected=expected,
    )


def _product_operation(
    shape: ProductShape, gpu: Gpu, rng: np.random.Generator, kind: Any
) -> tuple[Product, Array, Array]:
    """Return the product with its operands as they lie behind merged projections: heads side by side."""
    width = shape.heads * shape.size
    scores = Matrices(Value("scores", gpu.real, 0), 0, shape.queries * shape.keys, row=shape.keys, column=1)
    keys = rng.standard_normal(shape.keys * 2 * width, np.float32).astype(kind)
    found = Value("keys and values", gpu.real, keys.size)
    if shape.with_values:
        a = rng.random(shape.heads * shape.queries * shape.keys, np.float32).astype(kind)
        left = replace(scores, value=Value("scores", gpu.real, a.size))
        right = Matrices(found, width, shape.size, row=2 * width, column=1)
        y = Matrices(scores.value, 0, shape.size, row=width, column=1)
        op = Product(
            left,
            right,
            y,
            shape.heads,
            rows=shape.queries,
            columns=shape.size,
            depth=shape.keys,
            scale=1 / shape.keys,
        )
        return op, a, keys
    queries = rng.standard_normal(shape.queries * width, np.float32).astype(kind)
    left = Matrices(Value("queries", gpu.real, queries.size), 0, shape.size, row=width, column=1)
    right = Matrices(found, 0, shape.size, row=1, column=2 * width)
    scale = shape.size**-0.5
    op = Product(
        left,
        right,
        scores,
        shape.heads,
        rows=shape.queries,
        columns=shape.keys,
        depth=shape.size,
        scale=scale,
    )
    return op, queries, keys


def _elements(memory: Array, where: Matrices, n: Any, i: Any, j: Any) -> Array:
    places = where.offset + n * where.batch + i * where.row + j * where.column
    return np.asarray(memory[places], np.float64)


def _print_rows(rows: Sequence[Row]) -> None:
    print(rows[0]["shape"])
    best = min(row["ms"] for row in rows)
    for row in rows:
        mark = "*" if row["ms"] == best else " "
        parts = f" {row['parts']}" if len(row["parts"]) > 1 else ""
        detail = row["kernels"] if row["variant"] == "chosen" else ""
        rate = f"{row['ms']:9.4f} ms {row['tflops']:6.2f} TFLOPS {row['db']:6.1f} dB"
        print(f" {mark}{row['variant']:26}{rate}{parts} {detail}", flush=True)


def _print_total(network: str, rows: Sequence[Row]) -> None:
    """Print what an evaluation takes with the chosen and with the best variants."""
    counts = {str(shape): count for shape, count in networks()[network].items()}
    sums: dict[str, dict[str, float]] = {}
    for shape, count in counts.items():
        mine = [row for row in rows if row["shape"] == shape]
        if not mine:
            continue
        direct = [row["ms"] for row in mine if not row["kernels"].startswith("winograd")]
        kind = "products" if "heads" in shape else "3x3" if "3x3" in shape else "1x1"
        total = sums.setdefault(kind, {"chosen": 0.0, "best": 0.0, "best direct": 0.0})
        total["chosen"] += count * mine[0]["ms"]
        total["best"] += count * min(row["ms"] for row in mine)
        total["best direct"] += count * min(direct, default=mine[0]["ms"])
    for kind, total in sums.items():
        print(f"{network}, {kind}: " + ", ".join(f"{name} {ms:.3f} ms" for name, ms in total.items()))
    whole = {name: sum(total[name] for total in sums.values()) for name in ("chosen", "best", "best direct")}
    print(f"{network}: " + ", ".join(f"{name} {ms:.3f} ms" for name, ms in whole.items()))


if __name__ == "__main__":
    main()
