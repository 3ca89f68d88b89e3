"""A whole picture: computed from its networks' times, and drawn by the real pipeline in a few steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msd.bench.drawer import Draw
from msd.bench.result import Backend, Drawn, Measurement, Whole
from msd.bench.trial import SECONDS, Place
from msd.bundle import Bundle
from msd.errors import BadBundle, BadConfig, DelegateFailed
from msd.runners.child import Bounds, Child, ChildLost, ChildRefused
from msd.runners.interpreter import one_line
from msd.runtime import components as runtime
from msd.runtime.execution import Execution
from msd.runtime.guidance import Guidance
from msd.runtime.pipeline import require_prompts_suffice

SCALE = 7.5
"""How strong guidance is; what matters is whether a U-Net needs two rows for it."""

BACKENDS: Mapping[Backend, runtime.Backend] = {
    "litert-cpu": "cpu",
    "litert-gpu": "gpu",
    "tflite-runtime": "tflite-runtime",
}
"""What the pipeline calls the places where it can draw."""


def whole(
    bundle: Bundle, place: Place, measured: Sequence[Measurement], steps: int, drawn: Drawn | None
) -> Whole | None:
    """Return the whole picture of `steps` steps; None where not all of its networks were measured."""
    seconds = {m.component: m.timings.typical for m in measured}
    if not set(bundle.manifest.components) <= set(seconds):
        return None
    family = bundle.family
    rows = Guidance.of(bundle.component(family.denoiser.name), SCALE).rows
    passes = -(-rows // bundle.manifest.configuration.batch)
    encoding = sum(seconds.get(file, 0.0) for encoder in family.encoders for file in encoder.files)
    step, decoding = seconds[family.denoiser.name], seconds[family.decoder.name]
    return Whole(place.backend, steps, passes * encoding, passes * step, decoding, drawn)


def can_draw(bundle: Bundle, place: Place) -> bool:
    """Return whether the pipeline draws there."""
    if place.backend not in BACKENDS:
        return False
    try:
        require_prompts_suffice(bundle)
    except (BadBundle, BadConfig):
        return False
    return True


def draw(bundle: Bundle, place: Place, steps: int, execution: Execution = "pipelined") -> Drawn:
    """Return what drawing a picture took, in a process of its own; raises DelegateFailed."""
    request = Draw(
        bundle.folder,
        steps,
        BACKENDS[place.backend],
        place.threads,
        "fp16" if place.precision == "fp16" else "fp32",
        place.float_weights,
        execution,
    )
    with Child({}, Bounds.of(SECONDS * (steps + 2)), "msd.bench.drawer") as child:
        try:
            done = child.ask(request)
        except ChildLost as problem:
            raise DelegateFailed(f"Drawing with {bundle.folder} was lost: {problem}") from problem
        except ChildRefused as problem:
            raise DelegateFailed(f"Drawing with {bundle.folder} failed: {one_line(problem)}") from problem
        peak = max(done.peak, child.peak)
    return Drawn(steps, execution, done.seconds, tuple(done.outputs["steps"].tolist()), peak)
