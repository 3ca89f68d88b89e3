"""The float16 audit of one file, on the inputs that are closest to real."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msd.bundle import open_bundle
from msd.compress.calibration.image_inputs import image_port, scene_inputs, scene_to_change
from msd.compress.calibration.inputs import read_arrays
from msd.compress.calibration.ranges import Range, audit
from msd.graph.ir.interface import Interface, compared_ids
from msd.graph.ir.weights import Array
from msd.graph.tflite import read
from msd.measure.report.report import Audit, OutOfRange
from msd.run.runners.checks import check
from msd.run.runners.random_inputs import random_inputs

RANDOM_RUNS = 3
PROMPTS = (
    "a photograph of an astronaut riding a horse",
    "two red circles on the left over a blue background",
)
STEPS = 4

Drawn = Mapping[str, Sequence[Mapping[str, Array]]]
"""The inputs of a bundle's networks, by component."""


def audited(file: Path, drawn: Drawn | None = None, given: Sequence[Path] = ()) -> Audit:
    """Return the file's results that are out of range for float16.

    The inputs are those of the .npz files `given`; else those `drawn` by its bundle; else, for a network that
    reads an image alone, the demo's scenes; else random. Raises
    BadCalibration for damaged inputs, BadModelFile for those that do not fit and for files that cannot run.
    """
    description, runs = _inputs(file, drawn, given)
    ranges = audit(file, runs)
    return Audit(description, len(runs), len(ranges), tuple(row for each in ranges for row in _rows(each)))


def _rows(result: Range) -> Iterator[OutOfRange]:
    for what, beyond, value in (
        ("overflow", result.overflows, result.largest),
        ("sums", result.sums_overflow, result.sums or 0.0),
        ("vanishing", result.vanishes, result.largest),
    ):
        if beyond:
            reached = value if math.isfinite(value) else None
            yield OutOfRange(
                op=result.op,
                kind=result.kind,
                tensor=result.tensor,
                what=what,
                largest=reached,
                fix=result.cure,
            )


def _inputs(file: Path, drawn: Drawn | None, given: Sequence[Path]) -> tuple[str, list[Mapping[str, Array]]]:
    model = read(file)
    ports = Interface.of(model, file).inputs
    if given:
        runs = [read_arrays(path) for path in given]
        for run in runs:
            check(run, ports, file)
        return ", ".join(path.name for path in given), list(runs)
    if drawn is not None and file.stem in drawn:
        return "generated images", list(drawn[file.stem])
    if port := image_port(ports.values()):
        return "the demo's scenes", list(scene_inputs(port))
    return "random numbers", [
        random_inputs(ports.values(), seed, compared_ids(model)) for seed in range(RANDOM_RUNS)
    ]


def draw(bundle: Path, size: str = "") -> Drawn:
    """Generate two images with a bundle, in `size` or its first, and return each network's inputs.

    A model that reads an image beside the prompt reads a scene of the demo's.
    """
    from msd.compress.calibration.generated_inputs import collect_inputs
    from msd.conversion.sizes.pick import one_size
    from msd.run.runtime.needs import image_size, takes_mask
    from msd.run.runtime.request import Request

    opened = open_bundle(bundle)
    sizes = {str(each): each for each in opened.manifest.configuration.all_sizes}
    with one_size(opened, sizes.get(size)) as picked:
        needs_image = picked.wiring.needed_pixels
        image = scene_to_change(*image_size(picked), takes_mask(picked)) if needs_image else None
        requests = [Request(prompt, steps=STEPS, seed=i, image=image) for i, prompt in enumerate(PROMPTS)]
        return collect_inputs(picked, requests)
