"""The float16 audit of one file, on the inputs that are closest to real."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msd.bundle import open_bundle
from msd.calibration.inputs import read_arrays
from msd.ir.interface import Interface
from msd.ir.weights import Array
from msd.report.fp16_audit import Range, audit
from msd.report.report import Audit, OutOfRange
from msd.runners.interpreter import check
from msd.runners.random_inputs import random_inputs
from msd.tflite import read

RANDOM_RUNS = 3
PROMPTS = (
    "a photograph of an astronaut riding a horse",
    "two red circles on the left over a blue background",
)
STEPS = 4

Drawn = Mapping[str, Sequence[Mapping[str, Array]]]
"""What the networks of a bundle were fed, by component."""


def audited(file: Path, drawn: Drawn | None = None, given: Sequence[Path] = ()) -> Audit:
    """Return what float16 does not hold of the file's results.

    On the inputs in the .npz files `given`; else on those `drawn` by its bundle; else on random ones. Raises
    BadCalibration for damaged inputs, BadModelFile for those that do not fit and for files that cannot run.
    """
    said, runs = _inputs(file, drawn, given)
    ranges = audit(file, runs)
    return Audit(said, len(runs), len(ranges), tuple(row for found in ranges for row in _rows(found)))


def _rows(found: Range) -> Iterator[OutOfRange]:
    for what, beyond, value in (
        ("overflow", found.overflows, found.largest),
        ("sums", found.sums_overflow, found.sums or 0.0),
        ("vanishing", found.vanishes, found.largest),
    ):
        if beyond:
            reached = value if math.isfinite(value) else None
            yield OutOfRange(found.op, found.kind, found.tensor, what, reached, found.cure)


def _inputs(file: Path, drawn: Drawn | None, given: Sequence[Path]) -> tuple[str, list[Mapping[str, Array]]]:
    ports = Interface.of(read(file), file).inputs
    if given:
        runs = [read_arrays(path) for path in given]
        for run in runs:
            check(run, ports, file)
        return ", ".join(path.name for path in given), list(runs)
    if drawn is not None and file.stem in drawn:
        return "pictures drawn", list(drawn[file.stem])
    return "random numbers", [random_inputs(ports.values(), seed) for seed in range(RANDOM_RUNS)]


def draw(bundle: Path) -> Drawn:
    """Return the inputs of each network of a bundle, by component, while it draws two pictures."""
    from msd.calibration.drawing import gather
    from msd.runtime.pipeline import Request

    requests = [Request(prompt, steps=STEPS, seed=i) for i, prompt in enumerate(PROMPTS)]
    return gather(open_bundle(bundle), requests)
