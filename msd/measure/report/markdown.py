"""A report as Markdown, for the description of a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from msd.files.wording import plural
from msd.measure.markdown import table_row
from msd.measure.report.phrases import (
    COUNTED,
    READ_AND_WRITTEN,
    advice,
    in_browsers,
    least,
    mark,
    megabytes,
    overflows,
    places,
    ran_on,
    share,
    traffic_phrases,
    unjudged,
    verdict_phrase,
)
from msd.measure.report.report import SHOWN, DelegatePrediction, FileReport, Group, Report, grouped

LONGEST = 20
"""Groups of findings to show for a file and delegate; the JSON form has all."""


def to_markdown(report: Report) -> str:
    """Return one table of all files, then the failing findings of each."""
    lines = ["| file | delegate | device | on the GPU | partitions | findings | memory |", "|" + "---|" * 7]
    for file in report.files:
        lines += [_row(file, p) for p in file.predictions]
        lines += [table_row([file.file, "", "", unjudged(file), "", "", ""])] if unjudged(file) else []
    lines += _traffic(report)
    lines += [line for sentence in in_browsers(report.files) for line in ("", sentence)]
    for file in report.files:
        if file.run:
            tick = "✔" if file.run.ok else "✘"
            on = report.adapter.name if report.adapter else ran_on(file.run)
            lines += ["", f"**{file.file}** on {on}: {tick} {verdict_phrase(file.run)}."]
            lines += [f"- ✘ {objection}" for objection in file.run.objections]
        lines += [f"- ✘ {sentence}" for sentence in overflows(file)[:LONGEST]]
        lines += [f"- ⚠️ {sentence}" for sentence in file.disagreements]
        lines += [f"- {file.file}: {advice(file)}"] if advice(file) else []
        for prediction in file.predictions:
            lines += _findings(file, prediction)
    lines += ["", f"Exit code 3 for: {', '.join(report.failed)}."] if report.failed else []
    return "\n".join(lines) + "\n"


def _row(file: FileReport, p: DelegatePrediction) -> str:
    notes = plural(p.count("note"), "note")
    named = {**{severity: severity for severity in SHOWN}, "note": notes}
    counts = ", ".join(f"{p.count(s)} {name}" for s, name in named.items() if p.count(s)) or "none"
    memory = f"{megabytes(p.memory.weights)} weights, {megabytes(p.memory.activations)} activations"
    on_gpu = f"{mark(file, p)} {share(file, p)}"
    return table_row([file.file, p.delegate, p.device, on_gpu, str(p.partitions), counts, memory])


def _traffic(report: Report) -> Iterator[str]:
    """Yield a table of what runs read, write and compute, and their least times on the device asked for."""
    every = [(file, p, p.traffic) for file in report.files for p in file.predictions if p.traffic]
    if not every:
        return
    titles = ("file, delegate", *COUNTED, f"least time on {every[0][2].least[0].device}")
    yield from ("", READ_AND_WRITTEN, "", table_row(titles), "|" + "---|" * 6)
    for file, p, traffic in every:
        yield table_row((f"{file.file}, {p.delegate}", *traffic_phrases(traffic), least(traffic.least[0])))


def _findings(file: FileReport, prediction: DelegatePrediction) -> Iterator[str]:
    groups = [g for g in grouped(prediction.findings) if g.severity in SHOWN]
    if not groups:
        return
    yield from ("", f"**{file.file}**, {prediction.delegate} on {prediction.device}", "")
    yield from ("| what | operation | why | cured by |", "|---|---|---|---|")
    yield from map(_line, groups[:LONGEST])
    if len(groups) > LONGEST:
        yield from ("", f"… and {len(groups) - LONGEST} more kinds of findings.")


def _line(group: Group) -> str:
    fix = f"`{group.fix}`" if group.fix else ""
    return table_row([group.severity, f"{group.kind} {places(group.operations)}", group.sentence, fix])
