"""The time of an image: computed from its networks' times, and measured by generating one in a few steps."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msd.bundle import Bundle
from msd.errors import BadBundle, BadConfig, DelegateFailed
from msd.measure.bench.image_worker import GenerateImage
from msd.measure.bench.result import ImageGeneration, ImageTime, Measurement
from msd.models.families.calls import Call
from msd.models.families.wiring import LATENTS, MEANS
from msd.run.runners.checks import one_line
from msd.run.runners.child import Bounds, Child, ChildLost, ChildRefused
from msd.run.runners.engine import Engine
from msd.run.runtime.decode import decoder_runs, tile_runs
from msd.run.runtime.execution import Execution
from msd.run.runtime.guidance import Guidance
from msd.run.runtime.needs import files_in_order, require_prompts_suffice
from msd.run.runtime.scheduler import bundle_scheduler

SECONDS = 600.0
"""The most seconds that one step, or loading one network, may take."""


def image_time(
    bundle: Bundle,
    backend: str,
    measurements: Sequence[Measurement],
    steps: int | None,
    generation: ImageGeneration | None,
) -> ImageTime | None:
    """Return the time of an image of `steps` steps; None unless it `is_timed`.

    The bundle's manifest decides the guidance, and without
    `steps` their number. Networks that run only where they are asked for are not of it, but named beside it.
    """
    images = bundle.manifest.images.unless(steps, None)
    seconds = {m.component: m.timings.typical for m in measurements}
    if not is_timed(bundle, seconds):
        return None
    wiring = bundle.wiring
    rows = Guidance.of(bundle, images.guidance).rows
    batch, chunks = bundle.manifest.configuration.batch, bundle.manifest.configuration.prompt_chunks
    passes, readings = (-(-count // batch) for count in (rows, rows * chunks))
    runs = len(bundle_scheduler(bundle).table(images.steps).steps)
    return ImageTime(
        backend=backend,
        steps=images.steps,
        encoding=readings * sum(seconds[call.component] for call in wiring.of_prompts)
        + sum(seconds[call.component] * _tiles(bundle, call) for call in wiring.conditions),
        step=passes * sum(seconds[call.component] for call in wiring.steps_with(())) * runs / images.steps,
        decoding=seconds[wiring.decoder.component] * decoder_runs(bundle),
        drawn=generation,
        beside=tuple(name for name in bundle.manifest.components if name not in files_in_order(bundle)),
    )


def _tiles(bundle: Bundle, call: Call) -> int:
    """Return how often a call of an image runs: once for each tile, where latents are encoded in tiles."""
    named = {output.tensor for output in call.outputs if output.kind in (*LATENTS, MEANS)}
    encoded = (spec.shape for spec in bundle.component(call.component).outputs if spec.name in named)
    return next((tile_runs(bundle, *shape[1:3]) for shape in encoded), 1)


def is_timed(bundle: Bundle, measured: Collection[str]) -> bool:
    """Whether the time of an image follows from these components: all that every image runs.

    It does not where another program calls them.
    """
    if bundle.manifest.configuration.interface or not set(bundle.family.required) <= set(measured):
        return False
    return set(files_in_order(bundle)) <= set(measured)


def require_steps(bundle: Bundle, steps: int | None) -> None:
    """Raise BadConfig for steps that the bundle's scheduler cannot take; without any, its own."""
    bundle_scheduler(bundle).table(bundle.manifest.images.unless(steps, None).steps)


def why_none(bundle: Bundle, name: object) -> str | None:
    """Return why a prompt alone generates no image with the bundle called `name`; None if it does."""
    if foreign := bundle.manifest.configuration.interface:
        return f"{name} has the interface {foreign}, another program's"
    try:
        require_prompts_suffice(bundle, "an image is timed by a prompt alone")
    except (BadBundle, BadConfig) as problem:
        problem.rename(str(bundle.folder), str(name))
        return str(problem)
    return None


def can_generate(bundle: Bundle, engine: Engine) -> bool:
    """Whether the pipeline can generate images with the bundle there."""
    return engine.backend.open is not None and why_none(bundle, bundle.folder) is None


def generate_timed(
    bundle: Bundle, engine: Engine, steps: int, execution: Execution = "pipelined"
) -> ImageGeneration:
    """Return the time and memory of generating an image in a process of its own; raises DelegateFailed."""
    request = GenerateImage(
        folder=bundle.folder,
        steps=steps,
        backend=engine.backend.name,
        threads=engine.conditions.threads,
        precision=engine.conditions.precision,
        float_weights=engine.conditions.float_weights,
        gpu_api=engine.conditions.gpu_api,
        execution=execution,
    )
    with Child({}, Bounds.of(SECONDS * (steps + 2)), "msd.measure.bench.image_worker") as child:
        try:
            done = child.ask(request)
        except ChildLost as problem:
            raise DelegateFailed(f"Generating with {bundle.folder} failed: {problem}") from problem
        except ChildRefused as problem:
            raise DelegateFailed(f"Generating with {bundle.folder} failed: {one_line(problem)}") from problem
        peak = max(done.peak, child.peak)
    return ImageGeneration(
        steps=steps,
        execution=execution,
        seconds=done.seconds,
        step_seconds=tuple(done.outputs["steps"].tolist()),
        peak=peak,
    )
