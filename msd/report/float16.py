"""The float16 audit of one file, on the inputs that are closest to real."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from msd.audit import Range, audit
from msd.bundle import MANIFEST, open_bundle
from msd.delegate.inputs import random_inputs
from msd.errors import BadModelFile
from msd.interpreter import check
from msd.ports import Ports
from msd.report.report import Audit, OutOfRange
from msd.tflite import read
from msd.weights import Array

RANDOM_RUNS = 3
PROMPTS = (
    "a photograph of an astronaut riding a horse",
    "two red circles on the left over a blue background",
)
STEPS = 4


def audited(file: Path, bundle: Path | None, given: Sequence[Path] = ()) -> Audit:
    """Return what float16 does not hold of the file's results.

    On the inputs in the .npz files `given`; else on those that the networks of `bundle` get while it draws;
    else on random ones. Raises BadModelFile for inputs that do not fit and for files that the CPU cannot run.
    """
    said, runs = _inputs(file, bundle, given)
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


def _inputs(file: Path, bundle: Path | None, given: Sequence[Path]) -> tuple[str, list[Mapping[str, Array]]]:
    ports = Ports.of(read(file), file).inputs
    if given:
        runs = [_read(path) for path in given]
        for run in runs:
            check(run, ports, file)
        return ", ".join(path.name for path in given), list(runs)
    if bundle is not None and (bundle / MANIFEST).is_file():
        return "pictures drawn", _drawn(bundle, file)
    return "random numbers", [random_inputs(ports.values(), seed) for seed in range(RANDOM_RUNS)]


def _drawn(bundle: Path, file: Path) -> list[Mapping[str, Array]]:
    from msd.calibration.drawing import gather
    from msd.runtime.pipeline import Request

    found = gather(
        open_bundle(bundle), [Request(prompt, steps=STEPS, seed=i) for i, prompt in enumerate(PROMPTS)]
    )
    return list(found[file.stem])


def _read(path: Path) -> dict[str, Array]:
    """Return the arrays of an .npz file, in which nothing is executed."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, AttributeError) as problem:
        raise BadModelFile(f"{path} is not a file of inputs that numpy.savez wrote: {problem}") from problem
