"""Phrases that several views of a report share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msd.files.wording import counted
from msd.measure.judging.browser import NOTES
from msd.measure.judging.verdict import Verdict
from msd.measure.report.report import CountedTraffic, DelegatePrediction, FileReport, LeastTime
from msd.models.families import families

BYTES = ("MB", 1e6), ("kB", 1e3)
FLOP = ("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3)
SECONDS = ("ms", 1e-3), ("us", 1e-6)
"""Units and how much they are, the largest first."""


def megabytes(count: float) -> str:
    """Return bytes as megabytes (10⁶), or as kilobytes where those would be 0.0."""
    return _measured(BYTES, count)


def _measured(units: Sequence[tuple[str, float]], *counts: float) -> str:
    """Return quantities, an arrow between them, in the largest unit that does not make all of them 0.0."""
    shown = [unit for unit in units if max(counts) >= unit[1] / 20]
    name, scale = shown[0] if shown else units[-1 if any(counts) else 0]
    return f"{' → '.join(f'{count / scale:.1f}' for count in counts)} {name}"


def traffic_phrases(traffic: CountedTraffic) -> tuple[str, str, str, str]:
    """Return what is read, written and computed: each operation apart, then as the delegate joins them.

    The four phrases are of dispatches, activations, weights and arithmetic.
    """
    apart, joined = traffic.unfused, traffic.fused
    return (
        f"{apart.dispatches} → {joined.dispatches}",
        _measured(BYTES, apart.activations, joined.activations),
        megabytes(joined.weights),
        _measured(FLOP, joined.arithmetic),
    )


def least(time: LeastTime) -> str:
    """Return the least time of a run: each operation apart, then as the delegate joins them."""
    if time.unfused is None or time.fused is None:
        return "not known"
    return _measured(SECONDS, time.unfused, time.fused)


TILED = {name for family in families().values() for name in family.tiled}
"""The files that can run in tiles, without their ending."""

MOST_ACTIVATIONS = 1_000_000_000
"""Bytes: the decoder of Stable Diffusion 2.1 takes 0.7 GB for 512x512 pixels, and 3 GB for 1024x1024."""

READ_AND_WRITTEN = "Read and written by a run in float16, each operation apart → as the delegate joins them:"

NOTHING = "no operation that a GPU could run"

COUNTED = ("dispatches", "activations", "weights", "arithmetic")
"""The titles of the phrases of `traffic_phrases`."""


def places(operations: Sequence[int]) -> str:
    """Return where operations are: "#7", or "12x, first #7"."""
    return f"#{operations[0]}" if len(operations) == 1 else f"{len(operations)}x, first #{operations[0]}"


def unjudged(file: FileReport) -> str:
    """Return a phrase why a file has no prediction; empty for one that has."""
    return f"for the CPU, {_operations(file)}, not judged" if file.runs_on == "cpu" else ""


def _operations(file: FileReport) -> str:
    return counted(file.operations, "operation")


def advice(file: FileReport) -> str:
    """Return a sentence where tiles would save an autoencoder much memory; empty for other files."""
    most = max((p.memory.activations for p in file.predictions), default=0)
    if Path(file.file).stem not in TILED or most <= MOST_ACTIVATIONS:
        return ""
    return (
        f"activations take {most / 1e9:.1f} GB, more than many phones leave an app: decode in tiles, with"
        " msd-convert --vae-tile 512"
    )


def in_two_files(files: Sequence[FileReport]) -> Iterator[str]:
    """Yield of each network in two files, and each delegate, what both take together, a sentence each."""
    by_path = {Path(file.file): file for file in files}
    of_first = {c.first_half: c.name for f in families().values() for c in f.components if c.first_half}
    for path, first in by_path.items():
        rest = path.with_stem(of_first.get(path.stem, path.stem))
        if rest == path or rest not in by_path:
            continue
        second = by_path[rest]
        for one, other in zip(first.predictions, second.predictions, strict=True):
            yield (
                f"{path.name} and {rest.name} are one network, open side by side:"
                f" {megabytes(first.bytes + second.bytes)} of files, and with {one.delegate}"
                f" {megabytes(one.memory.weights + other.memory.weights)} of weights and"
                f" {megabytes(one.memory.activations + other.memory.activations)} of activations"
            )


def mark(file: FileReport, prediction: DelegatePrediction) -> str:
    """Return a tick or a cross."""
    return "✔" if file.passes(prediction) else "✘"


def share(file: FileReport, prediction: DelegatePrediction) -> str:
    """Return how many operations are predicted on the GPU, or that there are none."""
    return f"{prediction.delegated} of {file.operations}" if file.operations else NOTHING


def overflows(file: FileReport) -> list[str]:
    """Return a phrase for each result of a file that float16 cannot hold, as its audit measured."""
    rows = file.audit.out_of_range if file.audit else ()
    return [
        f"{file.file}: {row.kind} #{row.op} {row.tensor} overflows float16:"
        f" {'not finite' if row.largest is None else f'{row.largest:.3g}'}"
        for row in rows
        if row.what == "overflow"
    ]


def in_browsers(files: Sequence[FileReport]) -> list[str]:
    """Return a sentence on each browser and runtime that files ran in, in the place of a delegate here."""
    runs = [file.run for file in files if file.run]
    told = (f"{run.adapter}: {note}." for run in runs for note in NOTES.values() if note in run.log)
    return list(dict.fromkeys(told))


def ran_on(run: Verdict) -> str:
    """Return what ran a file: the GPU of a browser, or the real delegate."""
    return run.adapter if run.adapter_type == "browser" else "the real delegate"


def verdict_phrase(run: Verdict) -> str:
    """Return the verdict of what ran a file in a phrase."""
    if run.crashed:
        return f"lost, {counted(run.operations, 'operation')} undecided"
    partitions = f", {counted(run.partitions, 'partition')}" if run.partitions else ""
    numbers = f", {run.psnr_db:.1f} dB from the CPU" if run.psnr_db is not None else ""
    share = f"{run.delegated} of {counted(run.operations, 'operation')} on the GPU"
    return f"{share}{partitions}{numbers}, {run.precision}"
