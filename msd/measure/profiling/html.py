"""A report as one HTML page that needs nothing else: flame charts, and all tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from statistics import median

from msd.files.wording import counted, plural
from msd.measure.bench.table import TextTable, duration
from msd.measure.profiling.kinds import KernelCost, by_kernel, by_kind, kind_of, total
from msd.measure.profiling.result import DispatchCost, KernelReport, NetworkCosts
from msd.measure.profiling.table import remarks, roof_of, tables, title

ROW, GAP, TALL = 32, 4, 104
"""Height of a row of bars, the space between rows, and the height of a chart."""

WIDE = 1000.0
"""The width of a chart in its own units, which are a share of the time."""

COLOURS = (
    *("#4c7fd1", "#e07b39", "#2f9e6e", "#b65fb0", "#c9a227", "#d1495b", "#3aa6b9"),
    *("#8a6fdf", "#7a8b3c", "#a0623d", "#5b8c85", "#9c4f7c"),
)
HINT = "Point at a bar to read of it, click to zoom in, double-click to zoom out."


def to_html(report: KernelReport) -> str:
    """Return the page: a flame chart of each network, coloured by kind of kernel, then all tables."""
    house, own = files("msd.measure.report") / "page", files("msd.measure.profiling") / "page"
    style = (house / "style.css").read_text("utf-8") + (own / "style.css").read_text("utf-8")
    script = (house / "sort.js").read_text("utf-8") + (own / "zoom.js").read_text("utf-8")
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Kernels</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<style>{style}</style><h1>Kernels</h1>",
        f'<p class="dim"><code>{escape(report.command)}</code></p>',
        *(f'<p class="dim">{escape(remark)}.</p>' for remark in remarks(report)),
        *(part for network in report.networks for part in _network(network)),
        "<h2>Tables</h2>",
        *map(_table, tables(report)),
        f"<script>{script}</script></html>",
    ]
    return "\n".join(parts) + "\n"


def _network(network: NetworkCosts) -> Iterator[str]:
    colours = _colours(network)
    yield f"<h2>{escape(title(network.component))} on {escape(network.adapter)}, {network.precision}</h2>"
    yield _cards(network)
    yield f'<div class="chart">{_chart(network, colours)}<p class="says dim">{HINT}</p>'
    yield f"{_legend(colours)}</div>"
    yield "<details><summary>Kernels</summary>"
    yield _kernels(network, colours)
    yield "</details>"


def _colours(network: NetworkCosts) -> dict[str, str]:
    """Return the colour of each kind, the most expensive first; kinds beyond the last colour share grey."""
    kinds = [cost.name for cost in by_kind(network.dispatches)]
    return {kind: COLOURS[i] if i < len(COLOURS) else "#8b939c" for i, kind in enumerate(kinds)}


def _cards(network: NetworkCosts) -> str:
    every = total("all", network.dispatches)
    cards = (
        (duration(median(network.run_seconds)), "a whole run"),
        (str(every.dispatches), f"{_dispatches(every)} for {counted(network.operations, 'operation')}"),
        (f"{every.bytes / 1e6:.1f} MB", "read and written a run"),
        (f"{network.tensor_bytes / 1e6:.1f} MB", "tensors"),
        (f"{network.weight_bytes / 1e6:.1f} MB", "weights"),
        (duration(network.load_seconds + network.first_seconds), "from file to first result"),
    )
    return (
        '<div class="cards">'
        + "".join(f'<div class="card"><b>{escape(value)}</b>{escape(name)}</div>' for value, name in cards)
        + "</div>"
    )


def _dispatches(cost: KernelCost) -> str:
    return plural(cost.dispatches, "dispatch", "dispatches")


def _chart(network: NetworkCosts, colours: dict[str, str]) -> str:
    """Return an SVG of three rows along time: the network, its operations, and their dispatches."""
    every = total(network.component, network.dispatches)
    scale = WIDE / every.seconds if every.seconds else 0.0
    whole = f"{title(network.component)}: {every.dispatches} {_dispatches(every)}, {duration(every.seconds)}"
    bars = [_bar(0, WIDE, 0, whole, 'class="whole"')]
    begin, place = 0.0, 0
    for operation, group in groupby(network.dispatches, key=lambda each: each.operation):
        dispatches = list(group)
        bars += _operation(operation, dispatches, begin, place, scale, colours)
        begin += sum(each.seconds for each in dispatches)
        place += len(dispatches)
    label = f"{network.component}: dispatches along time"
    return (
        f'<svg viewBox="0 0 {WIDE:g} {TALL}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{"".join(bars)}</svg>'
    )


def _operation(
    operation: str,
    dispatches: Sequence[DispatchCost],
    begin: float,
    place: int,
    scale: float,
    colours: dict[str, str],
) -> Iterator[str]:
    """Yield the bars of dispatches of one operation that follow one another, and one bar above them."""
    every = total(operation or "dispatches without an operation", dispatches)
    slowest = max(dispatches, key=lambda each: each.seconds)
    says = f"{every.name}: {every.dispatches} {_dispatches(every)}, {duration(every.seconds)}"
    fill = f'fill="{colours[kind_of(slowest.kernel)]}" opacity=".45"'
    yield _bar(begin * scale, every.seconds * scale, 1, says, fill)
    for number, each in enumerate(dispatches, place):
        fill = f'fill="{colours[kind_of(each.kernel)]}"'
        yield _bar(begin * scale, each.seconds * scale, 2, _says(number, each), fill)
        begin += each.seconds


def _says(number: int, each: DispatchCost) -> str:
    cost = total(each.kernel, [each])
    return (
        f"{number}: {each.kernel}, {each.operation}, {each.seconds * 1e3:.4f} ms, "
        f"{cost.flops_per_second / 1e12:.3f} TFLOPS, {cost.bytes_per_second / 1e9:.1f} GB/s, "
        f"{' x '.join(map(str, each.groups))} workgroups"
    )


def _bar(x: float, width: float, row: int, says: str, look: str) -> str:
    at = GAP + row * (ROW + 1)
    return (
        f'<rect x="{x:.4f}" y="{at}" width="{width:.4f}" height="{ROW}" {look}>'
        f"<title>{escape(says)}</title></rect>"
    )


def _legend(colours: dict[str, str]) -> str:
    kinds = (f"<span>{_swatch(colour)}{escape(kind)}</span>" for kind, colour in colours.items())
    return f'<div class="legend dim">{"".join(kinds)}</div>'


def _swatch(colour: str) -> str:
    return f'<span class="swatch" style="background:{colour}"></span>'


def _kernels(network: NetworkCosts, colours: dict[str, str]) -> str:
    columns = ("kernel", "dispatches", "ms", "TFLOPS", "GB/s", *roof_of(network))
    rows = (
        (
            _swatch(colours[kind_of(cost.name)]) + escape(cost.name),
            str(cost.dispatches),
            f"{cost.seconds * 1e3:.3f}",
            f"{cost.flops_per_second / 1e12:.3f}",
            f"{cost.bytes_per_second / 1e9:.1f}",
            *roof_of(network, cost),
        )
        for cost in by_kernel(network.dispatches)
    )
    return _html_table(columns, rows)


def _table(table: TextTable) -> str:
    rows = (tuple(map(escape, row)) for row in table.rows)
    return f"<h3>{escape(table.title)}</h3>" + _html_table(table.columns, rows)


def _html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose cells are HTML; all columns but the first are numbers.

    Each cell knows its title too, for narrow windows, where rows stack.
    """
    kinds = ["", *['class="right"'] * (len(columns) - 1)]
    head = "".join(f"<th {kind}>{escape(name)}</th>" for kind, name in zip(kinds, columns, strict=True))
    body = "".join("<tr>" + "".join(map(_cell, columns, kinds, row)) + "</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scrolls">{table}</div>'


def _cell(title: str, kind: str, content: str) -> str:
    return f'<td data-title="{escape(title)}" {kind}>{content}</td>'
