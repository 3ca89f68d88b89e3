"""What the networks of a bundle are fed while pictures are drawn: real inputs, for measuring."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msd import tflite
from msd.bundle import Bundle, ConvertedFile, file_facts
from msd.calibration.inputs import Inputs, Runs, open_folder
from msd.demo.captions import captions
from msd.errors import BadCalibration
from msd.ir.interface import Interface
from msd.ir.weights import Array
from msd.runners.runner import Runnable
from msd.runtime.guidance import Guidance
from msd.runtime.pipeline import OnStep, Pipeline, Request

CAPTIONS = 4
"""How many of the demo's held-back captions are drawn where no prompts are given."""

OnRun = Callable[[str, Inputs], None]
"""Called before every run with the network's name and the inputs, which may change afterwards."""


@dataclass(frozen=True)
class Calibration:
    """Where inputs come from: a file of prompts or a folder of inputs is `given`, or the demo's captions.

    For prompts: how many denoising `steps`, of which `kept` are used, what `guidance`, and the first `seed`.
    """

    given: Path | None = None
    steps: int = 20
    kept: int = 4
    guidance: float = 7.5
    seed: int = 0

    def __str__(self) -> str:
        kept = f"{min(self.kept, self.steps)} of {self.steps} steps"
        drawn = f"{kept}, guidance {self.guidance:g}, seed {self.seed}"
        if self.given is None:
            return f"{CAPTIONS} captions of the demo, {drawn}"
        return self.given.name if self.given.is_dir() else f"{self.given.name}, {drawn}"

    def facts(self) -> list[object]:
        """Return what decides the inputs: numbers, and the SHA-256 of each file; raises BadCalibration."""
        chosen: list[object] = [self.steps, self.kept, self.guidance, self.seed]
        if self.given is None:
            return chosen
        files = sorted(self.given.rglob("*.np[yz]")) if self.given.is_dir() else [self.given]
        try:
            return [*chosen, [(path.name, file_facts(path).sha256) for path in files]]
        except OSError as problem:
            raise BadCalibration(f"{self.given} cannot be read: {problem.strerror}") from problem

    def runs(
        self, bundle: Bundle, components: Sequence[str], folder: Path, on_step: OnStep | None = None
    ) -> dict[str, Runs]:
        """Return the inputs of each of `components` of `bundle`; what is drawn is kept in `folder`.

        Raises BadCalibration for what is no such file or folder, or does not fit the networks.
        """
        if self.given is not None and self.given.is_dir():
            paths = {name: bundle.path(name) for name in components}
            inputs = {name: Interface.of(tflite.read(path), path).inputs for name, path in paths.items()}
            return {name: open_folder(self.given, name, inputs[name]) for name in components}
        prompts = captions("held-back", CAPTIONS, 0) if self.given is None else read_prompts(self.given)
        requests = [
            Request(prompt, seed=self.seed + i, steps=self.steps, guidance=self.guidance)
            for i, prompt in enumerate(prompts)
        ]
        drawn = record_inputs(bundle, requests, folder, self.kept, on_step)
        return {name: drawn[name] for name in components}


class ObservedRunner:
    """A runner of which `on_run` is told the inputs, before each run, with the network's name."""

    def __init__(self, name: str, runner: Runnable, on_run: OnRun) -> None:
        self._name, self._runner, self._on_run = name, runner, on_run

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the runner's outputs."""
        self._on_run(self._name, dict(inputs))
        return self._runner.run(inputs)


def collect_inputs(bundle: Bundle, requests: Sequence[Request]) -> dict[str, list[Inputs]]:
    """Return the inputs of each network, by component, while `requests` are drawn on the CPU.

    All are in memory; the same requests give the same inputs. Raises what `Pipeline.draw` raises.
    """
    found: dict[str, list[Inputs]] = {}

    def keep(name: str, inputs: Inputs) -> None:
        found.setdefault(name, []).append({key: value.copy() for key, value in inputs.items()})

    _observe(bundle, requests, keep)
    return found


def record_inputs(
    bundle: Bundle,
    requests: Sequence[Request],
    folder: Path,
    steps: int | None = None,
    on_step: OnStep | None = None,
) -> dict[str, Runs]:
    """Return what `collect_inputs` does, in files.

    Each run is a file COMPONENT/NUMBER.npz under `folder`, so that one is in memory at a time. Of each
    image's denoiser runs those of `steps` steps are kept, evenly along its trajectory from the first to the
    last; None for all. The same requests give the same files. Raises what `Pipeline.draw` raises.
    """
    denoiser = bundle.family.denoiser.name
    wanted = _wanted(requests, bundle.component(denoiser), steps)
    seen, kept = Counter[str](), {name: list[Path]() for name in bundle.manifest.components}
    for name in kept:
        (folder / name).mkdir(parents=True)

    def keep(name: str, inputs: Inputs) -> None:
        number, seen[name] = seen[name], seen[name] + 1
        if name != denoiser or number in wanted:
            kept[name].append(folder / name / f"{number:05}.npz")
            np.savez(kept[name][-1], **inputs)

    _observe(bundle, requests, keep, on_step)
    return {name: Runs(tuple(files)) for name, files in kept.items()}


def _observe(bundle: Bundle, requests: Sequence[Request], keep: OnRun, on_step: OnStep | None = None) -> None:
    """Draw, and tell the inputs of every run."""
    Pipeline(bundle, wrap=lambda name, runner: ObservedRunner(name, runner, keep)).draw(requests, on_step)


def _wanted(requests: Sequence[Request], denoiser: ConvertedFile, steps: int | None) -> set[int]:
    """Return the numbers of the denoiser's runs that are kept, counted over all requests."""
    wanted, start = set[int](), 0
    for request in requests:
        each = math.ceil(Guidance.of(denoiser, request.guidance).rows / denoiser.inputs[0].shape[0])
        count = request.steps if steps is None else min(steps, request.steps)
        for step in np.linspace(0, request.steps - 1, count).round().astype(int):
            wanted.update(range(start + step * each, start + (step + 1) * each))
        start += request.steps * each
    return wanted


def read_prompts(path: Path) -> tuple[str, ...]:
    """Return the prompts in a UTF-8 text file, one a line; lines that are empty or begin with # are left out.

    Raises BadCalibration for a file that is missing, no text, or without a prompt.
    """
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as problem:
        raise BadCalibration(
            f"{path} cannot be read as UTF-8 text of one prompt a line: {problem}"
        ) from problem
    prompts = tuple(line for line in lines if line and not line.startswith("#"))
    if not prompts:
        raise BadCalibration(f"{path} has no prompt; it should have one a line")
    return prompts
