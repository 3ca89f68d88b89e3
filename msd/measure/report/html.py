"""A report as one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from msd.files.wording import counted, plural
from msd.measure.report.phrases import (
    COUNTED,
    READ_AND_WRITTEN,
    advice,
    in_browsers,
    least,
    megabytes,
    overflows,
    places,
    ran_on,
    share,
    traffic_phrases,
    unjudged,
    verdict_phrase,
)
from msd.measure.report.report import (
    SHOWN,
    CountedTraffic,
    DelegatePrediction,
    FileReport,
    Group,
    Report,
    ReportedFault,
    grouped,
)

RAN = "litert-gpu"
"""The delegate that runs a file; of others there are only rules."""

WIDE = 1000
"""The timeline's width in its own units."""

TALL = 100

COLUMNS = ("severity", "operation", "where", "why", "cured by", "source")


def to_html(report: Report) -> str:
    """Return the page: every file with its summary, operations, findings and memory."""
    page = files("msd.measure.report") / "page"
    style, script = (page / "style.css").read_text("utf-8"), (page / "sort.js").read_text("utf-8")
    on = f" on {_text(report.adapter.name)}" if report.adapter else ""
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Delegation report</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<style>{style}</style><h1>Delegation report</h1>",
        f'<p class="dim">msd {_text(report.msd)}{on}. <span class="sorts">Click a column to sort.</span></p>',
        *_overview(report),
        *(part for number, file in enumerate(report.files) for part in _file(number, file)),
        *_driver_faults(report.reported),
        f"<script>{script}</script></html>",
    ]
    return "\n".join(parts) + "\n"


def _text(value: object) -> str:
    return escape(str(value))


def _path(value: str) -> str:
    """Return a path that may break behind its separators."""
    return re.sub(r"([/_.~-])", r"\1<wbr>", _text(value))


def _overview(report: Report) -> Iterable[str]:
    """Yield the verdict on all files, and the contents: a line for each file that leads to its part."""
    judged = [file for file in report.files if not unjudged(file)]
    good = [file for file in judged if _passes(file)]
    kind, these = "good" if len(good) == len(judged) else "rejected", plural(len(judged), "file")
    ran_here = any(file.run for file in judged)
    what = "fully delegated, with the CPU's results" if ran_here else "whole on the GPU, as the rules predict"
    yield f'<p class="verdict {kind}">{len(good)} of {len(judged)} {these}: {what}.</p>'
    yield from (f"<p>{_text(sentence)}</p>" for sentence in in_browsers(report.files))
    if report.failed:
        yield f'<p class="rejected">Exit code 3 for: {_text(", ".join(report.failed))}.</p>'
    yield "<ul>"
    for number, file in enumerate(report.files):
        tick = "·" if unjudged(file) else "✔" if _passes(file) else "✘"
        yield f'<li>{tick} <a href="#file-{number}">{_path(file.file)}</a>: {_text(_outcome(file))}</li>'
    yield "</ul>"


def _passes(file: FileReport) -> bool:
    """Whether the real delegate takes the file, and every other one by the rules."""
    return (not file.run or file.run.ok) and all(map(file.passes, _only_predicted(file)))


def _only_predicted(file: FileReport) -> list[DelegatePrediction]:
    """Return the predictions of which the real delegate says nothing."""
    return [p for p in file.predictions if not (file.run and p.delegate == RAN)]


def _outcome(file: FileReport) -> str:
    """Return what a file's run and predictions say, in a phrase, or why it has none."""
    measured = [verdict_phrase(file.run)] if file.run else []
    predicted = [f"{share(file, p)} predicted on {p.delegate}" for p in _only_predicted(file)]
    return unjudged(file) or ", ".join([*measured, *predicted])


def _file(number: int, file: FileReport) -> Iterable[str]:
    yield f'<h2 id="file-{number}">{_path(file.file)}</h2>'
    cards = [(plural(file.operations, "operation"), str(file.operations)), ("size", megabytes(file.bytes))]
    if file.run:
        cards.append((ran_on(file.run), verdict_phrase(file.run)))
    yield _cards(cards)
    yield f'<p class="dim"><code>sha256 {_text(file.sha256)}</code></p>'
    if unjudged(file):
        yield f"<p>{_text(unjudged(file))}</p>"
    for sentence in (*(file.run.objections if file.run else ()), *overflows(file)):
        yield f'<p class="rejected">{_text(sentence)}</p>'
    for sentence in file.disagreements:
        yield f'<p class="wrong">{_text(sentence)}</p>'
    if advice(file):
        yield f"<p>{_text(advice(file))}</p>"
    for prediction in file.predictions:
        yield from _prediction(file, prediction)
    yield "<h3>Operations</h3>"
    yield _histogram(file.kinds)


def _prediction(file: FileReport, prediction: DelegatePrediction) -> Iterable[str]:
    yield f"<h3>{_text(prediction.delegate)} on {_text(prediction.device)}</h3>"
    yield _cards(
        [
            ("on the GPU", share(file, prediction)),
            (plural(prediction.partitions, "partition"), str(prediction.partitions)),
            ("host–device copies", f"{prediction.copies}, {megabytes(prediction.copied)}"),
            ("weights", megabytes(prediction.memory.weights)),
            ("activations", megabytes(prediction.memory.activations)),
        ]
    )
    groups = grouped(prediction.findings)
    if shown := [g for g in groups if g.severity in SHOWN]:
        yield _table(COLUMNS, map(_finding, shown))
    else:
        yield '<p class="good">No findings.</p>'
    if notes := [g for g in groups if g.severity not in SHOWN]:
        count = sum(len(g.operations) for g in notes)
        told = _table(COLUMNS, map(_finding, notes))
        yield f"<details><summary>{counted(count, 'note')}</summary>{told}</details>"
    yield _timeline(prediction.memory.timeline)
    if prediction.traffic:
        yield from _traffic(prediction.traffic)


def _driver_faults(faults: Sequence[ReportedFault]) -> Iterable[str]:
    """Yield what was reported of the device whatever the file."""
    if faults:
        reports = counted(len(faults), "report")
        yield f"<details><summary>{reports} on this GPU, not measured by msd</summary>"
        items = (f"<li><b>{_text(f.title)}:</b> {_path(f.sentence)}</li>" for f in faults)
        yield f"<ul>{''.join(items)}</ul></details>"


def _traffic(traffic: CountedTraffic) -> Iterable[str]:
    yield f'<p class="dim">{_text(READ_AND_WRITTEN)}</p>'
    asked = traffic.least[0]
    facts = zip(COUNTED, traffic_phrases(traffic), strict=True)
    yield _cards([*facts, (f"least time on {asked.device}", least(asked))])
    sums, joined = traffic.unfused.kinds, traffic.fused.kinds
    rows = (
        _row(kind, megabytes(sums.get(kind, 0)), megabytes(joined.get(kind, 0)))
        for kind in {**sums, **joined}
    )
    others = [time for time in traffic.least[1:] if time.unfused is not None]
    if others:
        yield "<details><summary>The least time on other devices</summary>"
        yield _table(("device", "least time"), (_row(t.device, least(t)) for t in others)) + "</details>"
    yield "<details><summary>Activations by kind of operation</summary>"
    yield _table(("kind", "each apart", "joined"), rows) + "</details>"


Cell = tuple[str, str]
"""The attributes of a cell, and what it holds, both as HTML."""


def _row(*cells: str) -> list[Cell]:
    return [("", _text(cell)) for cell in cells]


def _cards(cards: Iterable[tuple[str, str]]) -> str:
    each = "".join(f'<div class="card"><b>{_text(value)}</b>{_text(name)}</div>' for name, value in cards)
    return f'<div class="cards">{each}</div>'


def _table(head: Sequence[str], rows: Iterable[Sequence[Cell]], kind: str = "") -> str:
    """Return a table; each cell knows its title too, for narrow windows, where rows stack."""
    titles = "".join(f"<th>{_text(title)}</th>" for title in head)
    cells = ("".join(_td(*cell) for cell in zip(head, row, strict=True)) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f'<table class="{kind}"><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>'


def _td(title: str, cell: Cell) -> str:
    attributes, content = cell
    return f'<td data-title="{_text(title)}" {attributes}>{content}</td>'


def _finding(group: Group) -> list[Cell]:
    severity = _text(group.severity)
    return [
        (f'class="{severity}"', severity),
        *_row(group.kind, places(group.operations), group.sentence),
        ("", f"<code>{_path(group.fix)}</code>" if group.fix else ""),
        ("", f"<code>{_path(group.source)}</code>"),
    ]


def _histogram(kinds: dict[str, int]) -> str:
    most = max(kinds.values(), default=1)
    return _table(("kind", "count", ""), (_bar(k, n, 100 * n / most) for k, n in kinds.items()), "bars")


def _bar(kind: str, count: int, percent: float) -> list[Cell]:
    bar = f'<span class="bar" style="width:{percent:.1f}%"></span>'
    return [*_row(kind), ('class="number"', str(count)), (f'data-value="{count}"', bar)]


def _timeline(timeline: tuple[int, ...]) -> str:
    """Return live activations over the operations as a filled curve."""
    if len(timeline) < 2 or not max(timeline):
        return ""
    peak, last = max(timeline), len(timeline) - 1
    points = (f"L{WIDE * i / last:.1f} {TALL * (1 - b / peak):.1f}" for i, b in enumerate(timeline))
    path = f"M0 {TALL}{''.join(points)}L{WIDE} {TALL}Z"
    says = f"live activations by operation, {megabytes(peak)} at most"
    return (
        f'<p class="dim">{says}</p><div class="chart"><span class="most">{megabytes(peak)}</span>'
        f'<span class="least">0</span><svg viewBox="0 0 {WIDE} {TALL}" preserveAspectRatio="none" role="img" '
        f'aria-label="{says}"><path d="{path}"/></svg>'
        f'<p class="axis"><span>operation 0</span><span>{last // 2}</span><span>{last}</span></p></div>'
    )
