"""A report as tables, the second and third in the layout of Tables 1 and 2 of arXiv 2304.11267."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from msd.bench.table import TextTable, duration
from msd.families import file_names, title_of
from msd.profiling.kinds import KernelCost, by_kind, total
from msd.profiling.result import (
    Ablation,
    AblationRow,
    KernelReport,
    NetworkCosts,
    ShapeCosts,
    WinogradCosts,
)
from msd.profiling.winograd_counts import TILES, saved_flops, tensor_growth, weight_growth

NOTHING = "–"


def tables(report: KernelReport) -> list[TextTable]:
    """Return all tables."""
    costs = [table for each in report.networks for table in (_kinds(each), _totals(each))]
    costs += [_ablation(each) for each in report.ablations]
    return costs + [table for each in report.winograd for table in (_tiles(each), _shapes(each))]


def to_markdown(report: KernelReport) -> str:
    """Return all tables as Markdown, and the remarks below them."""
    parts = [table.markdown() for table in tables(report)]
    return "\n".join([*parts, *(f"{remark}.\n" for remark in remarks(report))])


def remarks(report: KernelReport) -> list[str]:
    """Return remarks, a sentence each, without a full stop."""
    machine = report.machine
    sentences = [f"{machine.processor}, {machine.cores} cores, {machine.system}"]
    if machine.busy:
        sentences.append(f"The machine was busy: its load average was {machine.load:.1f} at the start")
    measured: list[NetworkCosts | Ablation | WinogradCosts]
    measured = [*report.networks, *report.ablations, *report.winograd]
    if software := sorted({each.adapter for each in measured if each.software}):
        names = " and ".join(software)
        sentences.append(f"{names} is software: its times are those of a processor and say nothing of a GPU")
    notes = (f"{title(each.component)}: {note}" for each in report.networks for note in each.notes)
    sentences += dict.fromkeys(notes)
    if report.ablations:
        sentences.append(
            "The baseline has tiled matrix products for convolutions and projections, integer weights on the "
            "GPU, bias, activation, sum and upsampling in the same dispatch, and one arena for all tensors"
        )
        sentences.append(
            "“Counted” is the sum of each dispatch's least time by its bytes and by its arithmetic at the "
            "device's peak; nothing ran there"
        )
    return sentences


def title(component: str) -> str:
    """Return the title of a network; a file's own name where it is none of a family."""
    return title_of(component) if component in file_names() else component


def _heading(network: NetworkCosts | Ablation | WinogradCosts) -> str:
    return f"{title(network.component)} on {network.adapter}, {network.precision}"


def _kinds(network: NetworkCosts) -> TextTable:
    columns = ("kind of kernel", "dispatches", "ms", "%", "GFLOP", "TFLOPS", "MB", "GB/s")
    every = total("all", network.dispatches)
    rows = [_kind(cost, every.seconds) for cost in (*by_kind(network.dispatches), every)]
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


def _totals(network: NetworkCosts) -> TextTable:
    every = total("all", network.dispatches)
    run = median(network.run_seconds)
    least = network.least_tensor_bytes
    more = f"{100 * (network.tensor_bytes / least - 1):.1f} % more than the least possible" if least else ""
    rows = (
        ("a whole run, submitted as one, median", f"{duration(run)} of {len(network.run_seconds)} runs"),
        ("all dispatches timed alone", duration(every.seconds)),
        ("dispatches", f"{every.dispatches} for {network.operations} operations"),
        ("pipelines", f"{network.pipelines}"),
        ("read and written a run", f"{every.bytes / 1e6:.1f} MB"),
        ("arithmetic of the operations", _speed(every, run)),
        ("tensors", f"{network.tensor_bytes / 1e6:.1f} MB, {more}".rstrip(", ")),
        ("weights", f"{network.weight_bytes / 1e6:.1f} MB"),
        ("from the file to a program on the GPU", duration(network.load_seconds)),
        ("to the first result", duration(network.load_seconds + network.first_seconds)),
    )
    return TextTable(f"{_heading(network)}: the network", ("", ""), rows)


def _speed(every: KernelCost, run: float) -> str:
    return f"{every.flops / 1e9:.2f} GFLOP, {every.flops / run / 1e12:.3f} TFLOPS in a whole run"


def _ablation(ablation: Ablation) -> TextTable:
    columns = (
        *("", "median", "to the baseline", "to the row before", "dispatches"),
        *("tensor, MB", "weight, MB", "moved, MB"),
        *(f"counted on {ablation.device}", "to the baseline", "by float32's peak"),
        *("its moved, MB", "its GFLOP"),
    )
    before = [ablation.rows[0], *ablation.rows]
    rows = tuple(_row(row, last, ablation.rows[0]) for last, row in zip(before, ablation.rows, strict=False))
    return TextTable(f"{_heading(ablation)}: optimisations, in turn", columns, rows)


def _row(row: AblationRow, before: AblationRow, base: AblationRow) -> tuple[str, ...]:
    seconds = {id(each): median(each.run_seconds) for each in (row, before, base)}
    counted = row.counted
    return (
        row.name,
        duration(seconds[id(row)]),
        ratio(seconds[id(row)], seconds[id(base)]),
        ratio(seconds[id(row)], seconds[id(before)]),
        str(row.dispatches),
        f"{row.tensor_bytes / 1e6:.1f}",
        f"{row.weight_bytes / 1e6:.1f}",
        f"{row.bytes / 1e6:.1f}",
        duration(counted.seconds),
        ratio(counted.seconds, base.counted.seconds),
        ratio(counted.float_seconds, base.counted.float_seconds),
        f"{counted.bytes / 1e6:.1f}",
        f"{counted.arithmetic / 1e9:.2f}",
    )


def ratio(seconds: float, other: float) -> str:
    """Return how many times as long the other takes."""
    return f"{other / seconds:.2f}×" if seconds else NOTHING


def _tiles(winograd: WinogradCosts) -> TextTable:
    columns = (
        *("tile", "FLOPs saved", "tensor memory", "weight memory"),
        *("all 3x3 convolutions", "to none", "least dB"),
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
    """Return the seconds of all convolutions in one tile size, and the least decibels of them."""
    costs = [(shape.count, each) for shape in shapes for each in shape.tiles if each.tile == tile]
    seconds = sum(count * each.seconds for count, each in costs)
    return seconds, min((each.decibels for _, each in costs), default=0.0)


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
