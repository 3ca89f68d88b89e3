"""A report as tables, the second and third in the layout of Tables 1 and 2 of arXiv 2304.11267."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from msd.files.wording import counted, listed
from msd.gpu.peaks import Peaks
from msd.measure.bench.table import TextTable, duration
from msd.measure.profiling.kinds import KernelCost, by_kind, total
from msd.measure.profiling.result import (
    Ablation,
    KernelReport,
    NetworkCosts,
    ShapeCosts,
    WinogradCosts,
)
from msd.measure.profiling.winograd_counts import TILES, saved_flops, tensor_growth, weight_growth
from msd.models.families import is_file, title_of

NOTHING = "–"


def tables(report: KernelReport) -> list[TextTable]:
    """Return all tables."""
    costs = [table for each in report.networks for table in (_kinds(each), _totals(each))]
    costs += [table for each in report.ablations for table in (_ablation(each), _counted(each))]
    return costs + [table for each in report.winograd for table in (_tiles(each), _shapes(each))]


def to_markdown(report: KernelReport) -> str:
    """Return all tables as Markdown, and the remarks below them."""
    parts = [table.markdown() for table in tables(report)]
    return "\n".join([*parts, *(f"{remark}.\n" for remark in remarks(report))])


def remarks(report: KernelReport) -> list[str]:
    """Return remarks, a sentence each, without a full stop."""
    machine, of = report.machine, f", for images of {report.size}" if report.size else ""
    sentences = [f"Measured: {listed(report.files)}{of}"] if report.files else []
    sentences += [f"{machine.processor}, {counted(machine.cores, 'core')}, {machine.system}"]
    if machine.busy:
        sentences.append(f"The machine was busy: its load average was {machine.load:.1f} at the start")
    measured: list[NetworkCosts | Ablation | WinogradCosts]
    measured = [*report.networks, *report.ablations, *report.winograd]
    if software := sorted({each.adapter for each in measured if each.software}):
        names = listed(software)
        sentences.append(f"{names} is software: its times are those of a processor and say nothing of a GPU")
    notes = (f"{title(each.component)}: {note}" for each in report.networks for note in each.notes)
    sentences += dict.fromkeys(notes)
    if report.ablations:
        sentences.append(
            "The baseline has tiled matrix products for convolutions and projections, integer weights on the "
            "GPU, bias, activation, sum and upsampling in the same dispatch, and one arena for all tensors"
        )
        sentences.append(
            "A least time adds up, for each dispatch, the longer of the times of its bytes and of its "
            "arithmetic at the device's peaks; nothing ran there"
        )
    return sentences


def title(component: str) -> str:
    """Return the title of a network; a file's own name where it is none of a family."""
    return title_of(component) if is_file(component) else component


def _heading(network: NetworkCosts | Ablation | WinogradCosts) -> str:
    return f"{title(network.component)} on {network.adapter}, {network.precision}"


def _kinds(network: NetworkCosts) -> TextTable:
    columns = ("kind of kernel", "dispatches", "ms", "%", "GFLOP", "TFLOPS", "MB", "GB/s", *roof_of(network))
    every = total("all", network.dispatches)
    rows = [
        (*_kind(cost, every.seconds), *roof_of(network, cost))
        for cost in (*by_kind(network.dispatches), every)
    ]
    return TextTable(f"{_heading(network)}: each dispatch timed alone", columns, tuple(rows))


def _kind(cost: KernelCost, seconds: float) -> tuple[str, ...]:
    return (
        cost.name,
        str(cost.dispatches),
        f"{cost.seconds * 1e3:.3f}",
        f"{100 * cost.seconds / seconds:.1f}" if seconds else NOTHING,
        f"{cost.flops / 1e9:.3f}",
        f"{cost.flops_per_second / 1e12:.3f}",
        f"{cost.bytes / 1e6:.2f}",
        f"{cost.bytes_per_second / 1e9:.1f}",
    )


def roof_of(network: NetworkCosts, cost: KernelCost | None = None) -> tuple[str, ...]:
    """Return the cell for the share of the roofline, or the column's title; nothing for software.

    A processor's caches and threads reach other peaks in each kernel than those that were measured.
    """
    if network.software:
        return ()
    return ("% of roof",) if cost is None else (f"{100 * cost.roof:.1f}",)


def _totals(network: NetworkCosts) -> TextTable:
    every = total("all", network.dispatches)
    run = median(network.run_seconds)
    least = network.least_tensor_bytes
    more = f"{100 * (network.tensor_bytes / least - 1):.1f} % more than the least possible" if least else ""
    rows = (
        (
            "a whole run, submitted as one, median",
            f"{duration(run)} of {counted(len(network.run_seconds), 'run')}",
        ),
        ("all dispatches timed alone", duration(every.seconds)),
        *([] if network.software else _roofs(network, every)),
        ("dispatches", f"{every.dispatches} for {counted(network.operations, 'operation')}"),
        ("pipelines", f"{network.pipelines}"),
        ("read and written a run", f"{every.bytes / 1e6:.1f} MB"),
        ("arithmetic of the operations", _speed(every, run)),
        ("tensors", f"{network.tensor_bytes / 1e6:.1f} MB, {more}".rstrip(", ")),
        ("weights", f"{network.weight_bytes / 1e6:.1f} MB"),
        ("from the file to a program on the GPU", duration(network.load_seconds)),
        ("to the first result", duration(network.load_seconds + network.first_seconds)),
    )
    return TextTable(f"{_heading(network)}: the network", ("", ""), rows)


def _roofs(network: NetworkCosts, every: KernelCost) -> list[tuple[str, str]]:
    return [
        ("all dispatches at the GPU's peaks", duration(every.least_seconds)),
        ("the GPU's peaks", _peaks(network.peaks)),
    ]


def _peaks(peaks: Peaks) -> str:
    matrices = f", by matrix units {peaks.matrix_flops / 1e12:.3f}" if peaks.matrix_flops else ""
    nothing = f"; {peaks.dispatch_seconds * 1e6:.1f} us for a dispatch of nothing"
    return f"{peaks.bytes / 1e9:.1f} GB/s, {peaks.flops / 1e12:.3f} TFLOPS{matrices}{nothing}"


def _speed(every: KernelCost, run: float) -> str:
    return f"{every.flops / 1e9:.2f} GFLOP, {every.flops / run / 1e12:.3f} TFLOPS in a whole run"


def _ablation(ablation: Ablation) -> TextTable:
    columns = (
        *("", "median", "× baseline's speed", "× the row before"),
        *("dispatches", "tensor, MB", "weight, MB", "moved, MB"),
    )
    rows = []
    for row, before in zip(ablation.rows, (ablation.rows[0], *ablation.rows), strict=False):
        seconds, others = median(row.run_seconds), (ablation.rows[0], before)
        faster = (ratio(seconds, median(other.run_seconds)) for other in others)
        sizes = (row.tensor_bytes, row.weight_bytes, row.bytes)
        rows.append((row.name, duration(seconds), *faster, str(row.dispatches), *map(_megabytes, sizes)))
    return TextTable(f"{_heading(ablation)}: optimisations, in turn", columns, tuple(rows))


def _counted(ablation: Ablation) -> TextTable:
    columns = (
        *("", "least time", "× baseline's speed", "by float32's peak", "× baseline's speed"),
        *("dispatches", "tensor, MB", "weight, MB", "moved, MB", "GFLOP computed"),
    )
    rows, base = [], ablation.rows[0].counted
    for row in ablation.rows:
        each = row.counted
        times = (duration(each.seconds), ratio(each.seconds, base.seconds))
        floats = (duration(each.float_seconds), ratio(each.float_seconds, base.float_seconds))
        sizes = map(_megabytes, (each.tensor_bytes, each.weight_bytes, each.bytes))
        computed = f"{each.arithmetic / 1e9:.2f}"
        rows.append((row.name, *times, *floats, str(each.dispatches), *sizes, computed))
    name = f"{title(ablation.component)} counted for {ablation.device}, fp16"
    return TextTable(name, columns, tuple(rows))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"


def ratio(seconds: float, other: float) -> str:
    """Return how many times as long the other takes."""
    return f"{other / seconds:.2f}×" if seconds else NOTHING


def _tiles(winograd: WinogradCosts) -> TextTable:
    columns = (
        *("tile", "FLOPs saved", "tensor memory", "weight memory"),
        *("all 3x3 convolutions", "× the speed of none", "least dB"),
    )
    rows = [_tile(tile, winograd.shapes) for tile in (0, *TILES)]
    return TextTable(f"{_heading(winograd)}: Winograd's tile sizes", columns, tuple(rows))


def _tile(tile: int, shapes: Sequence[ShapeCosts]) -> tuple[str, ...]:
    seconds, decibels = _sums(tile, shapes)
    none, _ = _sums(0, shapes)
    growths = saved_flops(tile), tensor_growth(tile), weight_growth(tile)
    return (
        f"{tile}x{tile}" if tile else "none",
        *(f"{growth:.2f}×" if tile else "1×" for growth in growths),
        duration(seconds),
        ratio(seconds, none),
        f"{decibels:.1f}",
    )


def _sums(tile: int, shapes: Sequence[ShapeCosts]) -> tuple[float, float]:
    """Return the seconds of all convolutions in one tile size, and the least decibels of them.

    A shape that a tile size was refused for counts as it is without Winograd.
    """
    seconds, decibels = 0.0, []
    for shape in shapes:
        costs = {each.tile: each for each in shape.tiles}
        cost = costs.get(tile, costs[0])
        seconds += shape.count * cost.seconds
        decibels.append(cost.decibels)
    return seconds, min(decibels)


def _shapes(winograd: WinogradCosts) -> TextTable:
    columns = ("image", "channels", "count", "none", *(f"{tile}x{tile}" for tile in TILES), "chosen")
    rows = tuple(map(_shape, winograd.shapes))
    return TextTable(f"{_heading(winograd)}: one convolution of each shape", columns, rows)


def _shape(shape: ShapeCosts) -> tuple[str, ...]:
    times = {each.tile: f"{duration(each.seconds)}, {each.decibels:.0f} dB" for each in shape.tiles}
    return (
        f"{shape.height}x{shape.width}",
        f"{shape.inputs} → {shape.outputs}",
        str(shape.count),
        *(times.get(tile, NOTHING) for tile in (0, *TILES)),
        f"{shape.chosen}x{shape.chosen}" if shape.chosen else "none",
    )
