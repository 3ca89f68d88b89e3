"""Record the inputs of a bundle's networks while images are generated, as calibration inputs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from msd.bundle import Bundle, ImageDefaults, file_facts
from msd.compress.calibration.image_inputs import image_inputs, image_port
from msd.compress.calibration.inputs import Inputs, Runs, open_folder
from msd.compress.calibration.prompt_file import read_prompts
from msd.compress.calibration.random_words import PROMPTS, RANDOM_WORDS, random_prompts
from msd.errors import BadCalibration
from msd.files.wording import counted
from msd.graph import tflite
from msd.graph.ir.interface import Interface
from msd.graph.ir.weights import Array
from msd.models.demo.captions import captions
from msd.models.families.control import PREFIX
from msd.run.runners.runner import Runnable
from msd.run.runtime.guidance import Guidance, denoiser_batch
from msd.run.runtime.needs import files_in_order
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.preview import Preview
from msd.run.runtime.request import Request
from msd.run.runtime.scheduler import bundle_scheduler
from msd.run.runtime.step_counter import OnStep
from msd.run.runtime.tokenizer import open_tokenizer

CAPTIONS = 4
"""The number of the demo's held-back captions that replace missing prompts."""

NO_IMAGES = "repaints or edits an image, and prompts have none: give --calibration a folder of inputs"
"""What a model does that prompts cannot calibrate, and what can."""

OnRun = Callable[[str, Inputs], None]
"""Called before every run with the network's name and its inputs, which may change after the call."""


@dataclass(frozen=True)
class Calibration:
    """The origin of inputs: a file of prompts, a folder of inputs, or with None the demo's captions.

    The name `RANDOM_WORDS` is that of no file: prompts are random words of the bundle's tokenizer, drawn from
    `seed`. Images of prompts have `steps` denoising steps, of which `kept` are recorded, this `guidance`,
    and seeds from `seed` upwards. Without `steps` or `guidance`, the bundle's manifest decides.
    """

    given: Path | None = None
    steps: int | None = None
    kept: int = 4
    guidance: float | None = None
    seed: int = 0

    def __str__(self) -> str:
        images = ImageDefaults().unless(self.steps, self.guidance)
        kept = f"{min(self.kept, images.steps)} of {counted(images.steps, 'step')}"
        settings = f"{kept}, guidance {images.guidance:g}, seed {self.seed}"
        if self.given is None:
            return f"{CAPTIONS} captions of the demo, {settings}"
        if self.is_random:
            return f"{PROMPTS} prompts of random words, {settings}"
        return self.given.name if self.given.is_dir() else f"{self.given.name}, {settings}"

    @property
    def is_random(self) -> bool:
        """Whether prompts are random words."""
        return self.given is not None and str(self.given) == RANDOM_WORDS and not self.given.exists()

    def completed(self, images: ImageDefaults) -> Calibration:
        """Return this calibration with the steps and the guidance that it lacks."""
        own = images.unless(self.steps, self.guidance)
        return replace(self, steps=own.steps, guidance=own.guidance)

    @property
    def is_of_files(self) -> bool:
        """Whether the inputs are those in a folder."""
        return self.given is not None and self.given.is_dir()

    def is_for(self, component: str) -> bool:
        """Whether there are inputs of a network: prompts give those of all but ControlNets."""
        if self.given is not None and self.is_of_files:
            return (self.given / component).is_dir()
        return not component.startswith(PREFIX)

    def facts(self) -> list[object]:
        """Return all that determines the inputs: numbers, and the SHA-256 of files; raises BadCalibration."""
        settings: list[object] = [self.steps, self.kept, self.guidance, self.seed]
        if self.given is None:
            return settings
        if self.is_random:
            return [*settings, RANDOM_WORDS, PROMPTS]
        files = sorted(self.given.rglob("*.np[yz]")) if self.given.is_dir() else [self.given]
        try:
            return [*settings, [(path.name, file_facts(path).sha256) for path in files]]
        except OSError as problem:
            raise BadCalibration(f"{self.given} cannot be read: {problem.strerror}") from problem

    def runs(
        self, bundle: Bundle, components: Sequence[str], folder: Path, on_step: OnStep | None = None
    ) -> dict[str, Runs]:
        """Return the inputs of each of `components` of `bundle`; recorded inputs go to files in `folder`.

        Raises BadCalibration for a file or folder that cannot be read or does not fit the networks.
        """
        if self.given is not None and self.given.is_dir():
            paths = {name: bundle.path(name) for name in components}
            inputs = {name: Interface.of(tflite.read(path), path).inputs for name, path in paths.items()}
            return {name: open_folder(self.given, name, inputs[name]) for name in components}
        if controls := [name for name in components if not self.is_for(name)]:
            raise BadCalibration(
                f"prompts have no pictures by which {controls[0]} steers: give --calibration a folder with"
                " inputs of it, or name other components with --component"
            )
        if bundle.wiring.needed_pixels:
            raise BadCalibration(f"the model in {bundle.folder} {NO_IMAGES}")
        prompts = self._prompts(bundle)
        images = bundle.manifest.images.unless(self.steps, self.guidance)
        requests = [
            Request(prompt, seed=self.seed + i, steps=images.steps, guidance=images.guidance)
            for i, prompt in enumerate(prompts)
        ]
        recorded = record_inputs(bundle, requests, folder, self.kept, on_step)
        return {name: recorded[name] for name in components}

    def _prompts(self, bundle: Bundle) -> Sequence[str]:
        if self.given is None:
            return captions("held-back", CAPTIONS, 0)
        if self.is_random:
            return random_prompts(open_tokenizer(bundle.folder / "tokenizer").vocabulary, self.seed)
        return read_prompts(self.given)


class ObservedRunner:
    """A runner that calls `on_run` with the network's name and the inputs before each run."""

    def __init__(self, name: str, runner: Runnable, on_run: OnRun) -> None:
        self._name, self._runner, self._on_run = name, runner, on_run

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the runner's outputs."""
        self._on_run(self._name, dict(inputs))
        return self._runner.run(inputs)


def collect_inputs(bundle: Bundle, requests: Sequence[Request]) -> dict[str, list[Inputs]]:
    """Return the inputs of each network, by component, for generating `requests` on the CPU.

    A network that reads images, and that generating them does without, reads those that are generated; a
    preview decoder reads the estimates of their latents after the last step. All are in memory; the same
    requests give the same inputs. Raises what `Pipeline.generate_all` raises.
    """
    runs: dict[str, list[Inputs]] = {}

    def keep(name: str, inputs: Inputs) -> None:
        runs.setdefault(name, []).append({key: value.copy() for key, value in inputs.items()})

    _observe(bundle, requests, keep)
    return runs


def record_inputs(
    bundle: Bundle,
    requests: Sequence[Request],
    folder: Path,
    steps: int | None = None,
    on_step: OnStep | None = None,
) -> dict[str, Runs]:
    """Return the inputs of `collect_inputs`, stored in files.

    Each run is a file COMPONENT/NUMBER.npz under `folder`, so that one is in memory at a time. The denoiser's
    runs are kept for `steps` steps of each image, spaced evenly from the first to the last; None keeps all.

    The same requests give the same files. Raises what `Pipeline.generate_all` raises.
    """
    in_steps = {call.component for call in bundle.wiring.steps}
    numbers = _denoiser_runs(requests, bundle, steps)
    seen, kept = Counter[str](), {name: list[Path]() for name in bundle.manifest.components}
    for name in kept:
        (folder / name).mkdir(parents=True)

    def keep(name: str, inputs: Inputs) -> None:
        number, seen[name] = seen[name], seen[name] + 1
        if name not in in_steps or number in numbers:
            kept[name].append(folder / name / f"{number:05}.npz")
            np.savez(kept[name][-1], **inputs)

    _observe(bundle, requests, keep, on_step)
    return {name: Runs(tuple(files)) for name, files in kept.items()}


def _observe(bundle: Bundle, requests: Sequence[Request], keep: OnRun, on_step: OnStep | None = None) -> None:
    """Generate images; call `keep` with the inputs of every run, and with the images for their readers."""
    pipeline = Pipeline(bundle, wrap=lambda name, runner: ObservedRunner(name, runner, keep))
    previews = bundle.wiring.preview is not None
    images = pipeline.generate_all(requests, on_step, on_preview=_preview_last_step if previews else None)
    for name in (name for name in bundle.manifest.components if name not in files_in_order(bundle)):
        port = image_port(bundle.component(name).inputs)
        if port:
            for image in images:
                keep(name, image_inputs(port, image.pixels))


def _preview_last_step(preview: Preview) -> None:
    if preview.number == preview.total:
        preview.pixels()


def _denoiser_runs(requests: Sequence[Request], bundle: Bundle, steps: int | None) -> set[int]:
    """Return the numbers of the denoiser's runs to keep, counted over all requests."""
    numbers, start, scheduler = set[int](), 0, bundle_scheduler(bundle)
    for request in requests:
        each = math.ceil(Guidance.of(bundle, request.guidance).rows / denoiser_batch(bundle))
        table = scheduler.table(request.steps).steps
        count = len(table) if steps is None else min(steps, len(table))
        for step in np.linspace(0, len(table) - 1, count).round().astype(int):
            numbers.update(range(start + step * each, start + (step + 1) * each))
        start += len(table) * each
    return numbers
