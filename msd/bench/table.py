"""A benchmark as tables: latency of each component, of the whole picture, and two bundles beside each other.

Their shape is that of Mobile Stable Diffusion (arXiv 2307.01193) and of "Speed Is All You Need" (arXiv
2304.11267): the latency of each component, the total for a number of steps, and memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from msd.bench.result import Benched, Benchmark, Drawn, Measurement, Ratio, Whole
from msd.families import file_names, title_of

NOTHING = "–"


@dataclass(frozen=True)
class TextTable:
    """A title, the columns' names, and rows of as many words."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return the table as Markdown, its title in bold above it."""
        lines = [self.columns, tuple("---" for _ in self.columns), *self.rows]
        return f"**{self.title}**\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tables(benchmark: Benchmark) -> list[TextTable]:
    """Return what there is to show, the components of each bundle first."""
    every = [table for benched in benchmark.bundles for table in _of_bundle(benched)]
    if benchmark.ratios:
        every.append(_comparison(benchmark))
    return every


def to_markdown(benchmark: Benchmark) -> str:
    """Return all tables as Markdown, and the remarks below them."""
    parts = [table.markdown() for table in tables(benchmark)]
    return "\n".join([*parts, *(f"{remark}.\n" for remark in remarks(benchmark))])


def remarks(benchmark: Benchmark) -> list[str]:
    """Return what a reader should know of the machine and of single rows, a sentence each, without a stop."""
    machine = benchmark.machine
    sentences = [f"{machine.processor}, {machine.cores} cores, {machine.system}"]
    if machine.busy:
        sentences.append(f"Others were at work: the load average was {machine.load:.1f} when this began")
    if benchmark.phone:
        sentences.append("Phone: " + ", ".join(f"{name} {value}" for name, value in benchmark.phone.items()))
    noted = [
        f"{title_of(m.component)}, {m.backend}: {note}"
        for benched in benchmark.bundles
        for m in benched.measurements
        for note in m.notes
    ]
    refused = [refusal.why for benched in benchmark.bundles for refusal in benched.refusals]
    return sentences + list(dict.fromkeys(noted + refused))


def _of_bundle(benched: Benched) -> list[TextTable]:
    name = f"{benched.bundle}, {benched.recipe}"
    every = [_components(name, benched)]
    if benched.wholes:
        every.append(_whole(name, benched.wholes))
    return every


def _components(name: str, benched: Benched) -> TextTable:
    columns = (
        *("component", "backend", "on", "delegated", "partitions"),
        *("init", "first run", "median", "90 %", "peak memory"),
    )
    refused = ((title_of(r.component), r.backend, "refused", *[NOTHING] * 7) for r in benched.refusals)
    rows = (*map(_row, benched.measurements), *refused)
    order = [title_of(name) for name in file_names()]
    return TextTable(f"{name}: one run", columns, tuple(sorted(rows, key=lambda row: order.index(row[0]))))


def _row(m: Measurement) -> tuple[str, ...]:
    times = m.timings
    on = m.adapter if m.threads is None else f"{m.adapter}, {m.threads} thread{'s' * (m.threads > 1)}"
    delegated = NOTHING if m.delegated is None else f"{m.delegated} of {m.nodes}, {m.delegate}"
    return (
        *(title_of(m.component), m.backend, f"{on}, {m.precision}", delegated),
        NOTHING if m.partitions is None else str(m.partitions),
        *(in_words(times.init), in_words(times.first)),
        f"{in_words(times.mean)} (mean)" if times.median is None else in_words(times.median),
        *(in_words(times.p90), _megabytes(m.memory.peak)),
    )


def _whole(name: str, wholes: tuple[Whole, ...]) -> TextTable:
    steps = wholes[0].steps
    columns = (
        *("backend", "text encoding", "one step", "decoding", f"{steps} steps, computed"),
        *("drawn by the pipeline", "in all, with loading", "one step of it", "peak memory"),
    )
    rows = [(w.backend, *map(in_words, (w.encoding, w.step, w.decoding, w.seconds))) for w in wholes]
    drawn = [_drawn(w.drawn) for w in wholes]
    title = f"{name}: a picture with guidance"
    return TextTable(title, columns, tuple(a + b for a, b in zip(rows, drawn, strict=True)))


def _drawn(drawn: Drawn | None) -> tuple[str, ...]:
    if drawn is None:
        return (NOTHING,) * 4
    step = sorted(drawn.step_seconds)[len(drawn.step_seconds) // 2]
    return (
        f"{drawn.steps} steps, {drawn.execution}",
        in_words(drawn.seconds),
        in_words(step),
        _megabytes(drawn.peak),
    )


def _comparison(benchmark: Benchmark) -> TextTable:
    first, second = (benched.bundle for benched in benchmark.bundles)
    columns = ("", "backend", first, second, f"{first} / {second}")
    return TextTable(
        f"{first} compared with {second}, in turn", columns, tuple(map(_compared, benchmark.ratios))
    )


def _compared(ratio: Ratio) -> tuple[str, ...]:
    what = title_of(ratio.what) if ratio.what in file_names() else "picture, computed"
    times = in_words(ratio.seconds), in_words(ratio.other_seconds)
    return what, ratio.backend, *times, f"{ratio.ratio:.2f}"


def in_words(seconds: float | None) -> str:
    """Return a time to three digits, in milliseconds below a second."""
    if seconds is None:
        return NOTHING
    number, unit = (seconds, "s") if seconds >= 0.9995 else (seconds * 1000, "ms")
    digits = 0 if number >= 99.95 else 1 if number >= 9.995 else 2
    return f"{number:.{digits}f} {unit}"


def _megabytes(size: int | None) -> str:
    return NOTHING if size is None else f"{size / 1e6:.0f} MB"
