"""A whole picture: computed from its networks' times, and drawn by the real pipeline in a few steps."""

from __future__ import annotations

from collections.abc import Sequence

from msd.bench.drawer import Draw
from msd.bench.result import Drawn, Measurement, Whole
from msd.bundle import Bundle
from msd.errors import BadBundle, BadConfig, DelegateFailed
from msd.runners.child import Bounds, Child, ChildLost, ChildRefused
from msd.runners.engine import Engine
from msd.runners.interpreter import one_line
from msd.runtime.execution import Execution
from msd.runtime.guidance import Guidance
from msd.runtime.pipeline import require_prompts_suffice

SCALE = 7.5
"""How strong guidance is; what matters is whether a U-Net needs two rows for it."""

SECONDS = 600.0
"""All that one step may take, or one network to load."""


def whole(
    bundle: Bundle, backend: str, measured: Sequence[Measurement], steps: int, drawn: Drawn | None
) -> Whole | None:
    """Return the whole picture of `steps` steps; None where not all of its networks were measured."""
    seconds = {m.component: m.timings.typical for m in measured}
    if not set(bundle.manifest.components) <= set(seconds):
        return None
    family = bundle.family
    rows = Guidance.of(bundle.component(family.denoiser.name), SCALE).rows
    passes = -(-rows // bundle.manifest.configuration.batch)
    encoding = sum(seconds.get(file, 0.0) for encoder in family.encoders for file in encoder.files)
    return Whole(
        backend=backend,
        steps=steps,
        encoding=passes * encoding,
        step=passes * seconds[family.denoiser.name],
        decoding=seconds[family.decoder.name],
        drawn=drawn,
    )


def can_draw(bundle: Bundle, engine: Engine) -> bool:
    """Return whether the pipeline draws there."""
    if engine.backend.open is None:
        return False
    try:
        require_prompts_suffice(bundle)
    except (BadBundle, BadConfig):
        return False
    return True


def draw(bundle: Bundle, engine: Engine, steps: int, execution: Execution = "pipelined") -> Drawn:
    """Return what drawing a picture took, in a process of its own; raises DelegateFailed."""
    request = Draw(
        folder=bundle.folder,
        steps=steps,
        backend=engine.backend.name,
        threads=engine.conditions.threads,
        precision=engine.conditions.precision,
        float_weights=engine.conditions.float_weights,
        execution=execution,
    )
    with Child({}, Bounds.of(SECONDS * (steps + 2)), "msd.bench.drawer") as child:
        try:
            done = child.ask(request)
        except ChildLost as problem:
            raise DelegateFailed(f"Drawing with {bundle.folder} was lost: {problem}") from problem
        except ChildRefused as problem:
            raise DelegateFailed(f"Drawing with {bundle.folder} failed: {one_line(problem)}") from problem
        peak = max(done.peak, child.peak)
    return Drawn(
        steps=steps,
        execution=execution,
        seconds=done.seconds,
        step_seconds=tuple(done.outputs["steps"].tolist()),
        peak=peak,
    )
