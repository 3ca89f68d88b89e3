"""What a GPU's threads reach without matrix units: of multiplications alone, and of msd's kernels.

    PYTHONPATH=. python -m scripts.lab.measure_threads -o found.json [--gpu-api dawn]

Needs a GPU with timestamp queries and f16. Multiplications are those of a thread's block of a product, on
numbers in registers: no memory is read. Times are medians by the GPU's own clock behind other work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from msd.gpu.assemble import Named, assemble
from msd.gpu.device import OpenDevice, open_device
from msd.gpu.kernels.flash import flash
from msd.gpu.kernels.flash_choice import choose_tile as choose_flash
from msd.gpu.kernels.shader import shader_dispatch
from msd.gpu.session import Session
from msd.gpu.value import Dispatch, Value
from scripts.figures import save_figures
from scripts.lab.attention_cases import Case
from scripts.lab.bench_attention import Run, attention_of, busy_time, measure_runs
from scripts.lab.bench_dawn import PACKAGES
from scripts.lab.bench_engine import described
from scripts.lab.bench_kernels import _convolution, _timed
from scripts.lab.kernel_shapes import ConvolutionShape
from scripts.lab.tile_options import by_threads

TURNS, ROWS, REPEATS = 512, 8, 5
"""Steps along K, rows of a thread's block, and the runs of a median."""
SHAPES = [
    ConvolutionShape(64, 64, 4096, 4096),
    ConvolutionShape(96, 96, 320, 2560, gate=True),
    ConvolutionShape(96, 96, 1280, 320),
    ConvolutionShape(48, 48, 2560, 640),
    ConvolutionShape(24, 24, 1280, 1280),
]
CASES = [
    Case("SD 2.1", 5, 9216, 9216, size=64, count=5),
    Case("SDXL", 10, 4096, 4096, size=64, count=10),
    Case("SD 1.5", 8, 6144, 6144, size=40, count=5),
]


@dataclass(frozen=True)
class ThreadBlock:
    """Sums of `ROWS` x 8 numbers of a type, and the expression that adds to that of row i and vector j."""

    name: str
    vector: str
    element: str
    columns: int
    adds: str


BLOCKS = [
    ThreadBlock(
        "f16, a row's number times a vector",
        vector="vec2<f16>",
        element="f16",
        columns=4,
        adds="fma(vec2<f16>(x$h.$c), w$j, s)",
    ),
    ThreadBlock(
        "f16, vector times vector", vector="vec2<f16>", element="f16", columns=4, adds="fma(x$h, w$j, s)"
    ),
    ThreadBlock(
        "f16, the sum times a vector", vector="vec2<f16>", element="f16", columns=4, adds="fma(s, w$j, s)"
    ),
    ThreadBlock(
        "f32, a row's number times a vector",
        vector="vec4<f32>",
        element="f32",
        columns=2,
        adds="fma(vec4<f32>(x$h.$c), w$j, s)",
    ),
]


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--gpu-api", type=click.Choice(["dawn", "wgpu"]), default="dawn", show_default=True)
def main(output: Path, gpu_api: Any) -> None:
    """Measure, print each figure, and write the JSON."""
    device = by_threads(open_device(api=gpu_api))
    report = described(PACKAGES) | {"device": device.name, "gpu api": gpu_api}
    for row in (*_blocks(device), *_products(device), *_attention(device)):
        click.echo(f"{row['TFLOPS']:6.1f} TFLOPS  {row['of']}")
        report["rows"].append(row)
    save_figures(output, report, "msd/gpu", indent=1)


def _blocks(device: OpenDevice) -> Iterator[dict[str, Any]]:
    for block in (each for each in BLOCKS if device.gpu.half or each.element == "f32"):
        dispatch = _dispatch(block, device)
        y = dispatch.writes[0]
        program = assemble([dispatch], {}, {"y": Named(y, (y.count,), "float32")}, device.gpu)
        with Session(program, device) as session:
            seconds = median(busy_time(session, {})[0] for _ in range(REPEATS))
        yield {"of": f"multiplications: {block.name}", "TFLOPS": round(dispatch.flops / seconds / 1e12, 1)}


def _dispatch(block: ThreadBlock, device: OpenDevice) -> Dispatch:
    """Return a dispatch whose threads do nothing but add to the sums of their blocks."""
    width, element = int(block.vector[3]), block.element

    def numbers(first: int, count: int) -> str:
        return ", ".join(f"{element}(thread + {first + n}u) * {element}(0.001)" for n in range(count))

    lines = [f"let x{h} = vec2<{element}>({numbers(9 * h, 2)});" for h in range(ROWS // 2)]
    lines += [f"let w{j} = {block.vector}({numbers(5 * j, width)});" for j in range(block.columns)]
    places = [(i, j) for i in range(ROWS) for j in range(block.columns)]
    lines += [f"var s{i}_{j} = {block.vector}();" for i, j in places]
    lines.append(f"for (var turn = 0u; turn < {TURNS}u; turn++) {{")
    for i, j in places:
        adds = block.adds.replace("$h", str(i // 2)).replace("$c", "xy"[i % 2]).replace("$j", str(j))
        lines.append(f"s{i}_{j} = {adds.replace('(s,', f'(s{i}_{j},').replace(' s)', f' s{i}_{j})')};")
    total = " + ".join(f"s{i}_{j}" for i, j in places)
    parts = " + ".join(f"total.{part}" for part in "xyzw"[:width])
    lines += ["}", f"let total = {total};", f"y[group.x * 256u + thread] = f32({parts});"]
    head = "@compute @workgroup_size(256)\nfn main(@builtin(workgroup_id) group: vec3<u32>, "
    head += "@builtin(local_invocation_index) thread: u32) {\n"
    groups = 8 * device.gpu.enough_workgroups
    y = Value("y", "f32", groups * 256)
    flops = 2 * groups * 256 * TURNS * len(places) * width
    body = head + "\n".join(lines) + "\n}\n"
    return shader_dispatch(block.name, body, {}, {"y": (y, 1)}, {}, (groups, 1, 1), flops)


def _products(device: OpenDevice) -> Iterator[dict[str, Any]]:
    for shape in SHAPES:
        trial = _convolution(shape, device.gpu)
        found = _timed(device, device.gpu, trial, {"chosen": trial.chosen}, REPEATS)
        [(seconds, decibels, _)] = found.values()
        rate = round(trial.flops / sum(seconds) / 1e12, 1)
        yield {"of": f"convolution {shape}", "TFLOPS": rate, "dB": round(decibels, 1)}


def _attention(device: OpenDevice) -> Iterator[dict[str, Any]]:
    for case in CASES:
        op = attention_of(case, device.gpu)
        tile = choose_flash(op, device.gpu)
        assert tile is not None, "every case has a tile"
        run = Run(case, op, flash(op, tile, device.gpu))
        [row] = measure_runs([run], "chosen", device, REPEATS)
        rounded = {"TFLOPS": round(row.tflops, 1), "dB": round(row.decibels, 1)}
        yield {"of": f"attention {' '.join(case.name.split())}"} | rounded


if __name__ == "__main__":
    main()
