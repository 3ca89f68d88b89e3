"""Choose the spelling of a network: by time on this machine's GPU, or by the bytes that the rules count.

    python -m scripts.tune_spelling sd21-base --by time -o configs/spellings/litert-h100.toml
    python -m scripts.tune_spelling sd21-base --by bytes -o configs/spellings/litert-fewest-bytes.toml

MODEL is a name of configs/models/, whose weights are drawn from a seed, or a checkpoint, of which only the
sizes count. By time, every run of a spelling is followed by one of the best so far, from inputs in memory to
outputs in memory, and the ratio is that of the medians. By bytes, nothing runs: the ratio is that of the
activations that a run reads and writes after the delegate has joined what it joins
(msd/prediction/fusion.py).
What was tried stands in the profile.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from msd import tflite
from msd.errors import MsdError
from msd.families.stable_diffusion import STABLE_DIFFUSION
from msd.files.configs import CONFIGS
from msd.ir.weights import Array
from msd.models.networks import networks, read_configs, size_of
from msd.models.structure import Structure
from msd.models.structure_cache import structure_of
from msd.parity import psnr
from msd.prediction.device import Device, find_device
from msd.prediction.fusion import fused
from msd.prediction.registry import delegates, find_delegate
from msd.prediction.rules import predict
from msd.prediction.traffic import traffic
from msd.rewrite import Target
from msd.rewrite.spelling import FORMS, Spelling
from msd.runners import adapter
from msd.runners.backends.litert_gpu import GpuProcess
from msd.runners.random_inputs import random_inputs
from msd.runners.runner import Conditions
from msd.runners.timings import Effort, interleaved
from msd.sources.formats import open_checkpoint
from scripts.ablate_gpu import gpu_name
from scripts.judge_full_size import random_model
from scripts.measured import machine
from scripts.spelling_search import Compare, SpellingTrial, search

KEEP = {"time": 0.995, "bytes": 0.9999}
"""A change stays below these ratios; runs in turn repeat to some tenths of a per cent."""

WARMUPS = 3


@click.command()
@click.argument("model")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--by", type=click.Choice(["time", "bytes"]), default="time", show_default=True)
@click.option("--only", multiple=True, type=click.Choice(list(FORMS)), help="Try these constructs.")
@click.option("--component", type=click.Choice(STABLE_DIFFUSION.names), default="unet", show_default=True)
@click.option("--delegate", type=click.Choice(list(delegates())), default="litert-gpu", show_default=True)
@click.option("--device", default="adreno-740", show_default=True, help="Of the rules, by bytes.")
@click.option("--precision", type=click.Choice(["fp16", "fp32"]), default="fp16", show_default=True)
@click.option("--recipe", default="gpu-w8", show_default=True)
@click.option("--turns", type=click.IntRange(3, 1000), default=20, show_default=True)
def main(
    model: str,
    output: Path,
    by: str,
    only: tuple[str, ...],
    component: str,
    delegate: str,
    device: str,
    precision: Any,
    recipe: str,
    turns: int,
) -> None:
    """Write the best spelling of MODEL's component, with all that was tried, to OUTPUT."""
    if by == "time" and delegate != "litert-gpu":
        raise click.UsageError("only litert-gpu runs on this machine; give --by bytes for another delegate.")
    network = SpelledNetwork(structure_of_model(model, component), component, recipe)
    target = find_device(device).under(delegate)
    facts: dict[str, Any] = {"command": "python -m scripts.tune_spelling " + " ".join(sys.argv[1:])}
    facts |= {"model": model, "component": component, "by": by, "machine": machine()}
    with ExitStack() as stack:
        compare: Compare = network.by_bytes(target)
        if by == "time":
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            turning = stack.enter_context(InTurn(network, folder, precision, turns))
            compare = turning
            facts |= {"gpu": gpu_name() or turning.conditions.adapter.name, "precision": precision}
            facts |= {"turns": turns, "ai-edge-litert": version("ai-edge-litert")}
        found = search(told(compare), KEEP[by], only or tuple(FORMS))
        total = compare(found.best, Spelling())
    say(total)
    description = f"the fewest {by} of {model}'s {component} with {delegate}"
    facts |= {"ratio": total.ratio, "decibels": total.decibels}
    text = profile(description, delegate, found.best, facts, [*found.tried, total])
    output.write_text(text, "utf-8")


@cache
def structure_of_model(model: str, component: str) -> Structure:
    """Return the structure of a public model's component, or of a checkpoint's."""
    described = CONFIGS / "models" / f"{model}.toml"
    if described.exists():
        configs = read_configs(STABLE_DIFFUSION, tomllib.loads(described.read_text("utf-8")))
    else:
        configs = open_checkpoint(Path(model)).configs
    size = size_of(STABLE_DIFFUSION, configs)
    return structure_of(networks(STABLE_DIFFUSION, configs, size)[component])


class SpelledNetwork:
    """A network with random weights, in any spelling."""

    def __init__(self, structure: Structure, component: str, recipe: str) -> None:
        self.structure, self.component, self.recipe = structure, component, recipe

    def model(self, spelling: Spelling) -> Any:
        """Return the rewritten and encoded model, whose weights are drawn when read."""
        target = Target(Device(), spelling=spelling)
        return random_model(self.structure, self.component, self.recipe, target)[0]

    def by_bytes(self, device: Device) -> Compare:
        """Return what compares the bytes of activations with the device's delegate."""

        delegate = find_delegate(device.delegate or "")

        @cache
        def counted(spelling: Spelling) -> tuple[int, str | None]:
            model = self.model(spelling)
            findings = [f for f in predict(model, delegate.name) if f.severity in ("rejected", "wrong")]
            nodes = fused(model.main, delegate)
            total = sum(each.activations for each in traffic(nodes, model.main, device))
            return total, findings[0].sentence if findings else None

        def compare(one: Spelling, other: Spelling) -> SpellingTrial:
            (bytes, failure), (theirs, _) = counted(one), counted(other)
            if failure:
                return SpellingTrial(one, other, None, failure=failure)
            return SpellingTrial(one, other, round(bytes / theirs, 4), (bytes, theirs))

        return compare


class InTurn:
    """Compares two spellings on this machine's GPU, run for run; that which was compared with stays open."""

    def __init__(self, network: SpelledNetwork, folder: Path, precision: Any, turns: int) -> None:
        self.network, self.folder, self.turns = network, folder, turns
        self.conditions = Conditions(precision=precision, adapter=adapter.find())
        self.inputs: dict[str, Array] = {}
        self.standard: dict[str, Array] = {}
        self.opened: dict[Spelling, GpuProcess] = {}

    def __enter__(self) -> InTurn:
        self.run(Spelling())
        return self

    def __exit__(self, *_: object) -> None:
        self.close_but()

    def __call__(self, one: Spelling, other: Spelling) -> SpellingTrial:
        """Return the medians' ratio, and the distance of the outputs from the standard spelling's."""
        try:
            outputs = self.run(one)
            self.run(other)
            runs = [self.timed(one), self.timed(other)]
            interleaved(runs, Effort(WARMUPS, 0, 0.0, float("inf")), lambda turn, last: None)
            times = interleaved(runs, Effort(self.turns, 0, 0.0, float("inf")), lambda turn, last: None)
        except MsdError as error:
            return SpellingTrial(one, other, None, failure=str(error))
        finally:
            self.close_but(other)
        costs = median(times[0]), median(times[1])
        distances = [psnr(self.standard[name], found) for name, found in outputs.items()]
        finite = all(np.isfinite(found).all() for found in outputs.values())
        decibels = round(min(distances), 1) if finite else 0.0
        ratio = round(costs[0] / costs[1], 4)
        return SpellingTrial(one, other, ratio, costs=costs, decibels=decibels)

    def run(self, spelling: Spelling) -> dict[str, Array]:
        """Return the outputs of a spelling, which is opened if it isn't yet."""
        if spelling not in self.opened:
            self.opened[spelling] = self.open(spelling)
        runner = self.opened[spelling]
        self.inputs = self.inputs or random_inputs(runner.inputs.values())
        outputs = runner.run(self.inputs)
        self.standard = self.standard or outputs
        return outputs

    def open(self, spelling: Spelling) -> GpuProcess:
        """Return the spelling's file, compiled for the GPU alone."""
        path = self.folder / "network.tflite"
        tflite.write(self.network.model(spelling), path)
        try:
            return GpuProcess(path, self.conditions).__enter__()
        finally:
            path.unlink()

    def timed(self, spelling: Spelling) -> Callable[[], float]:
        """Return what runs a spelling once and returns the seconds."""

        def once() -> float:
            runner = self.opened[spelling]
            runner.run(self.inputs)
            return runner.run_seconds[-1]

        return once

    def close_but(self, *kept: Spelling) -> None:
        """Close all but those `kept`."""
        for spelling in [each for each in self.opened if each not in kept]:
            self.opened.pop(spelling).__exit__(None, None, None)


def told(compare: Compare) -> Compare:
    """Return `compare`, which says each result on stderr."""

    def telling(one: Spelling, other: Spelling) -> SpellingTrial:
        comparison = compare(one, other)
        say(comparison)
        return comparison

    return telling


def say(comparison: SpellingTrial) -> None:
    """Print a comparison on stderr."""
    change = ", ".join(f"{c} {form}" for c, form in comparison.change.items()) or "nothing"
    beside = ", ".join(f"{c} {form}" for c, form in comparison.against.forms) or "the standard spelling"
    found = comparison.failure or f"{comparison.ratio}, {comparison.decibels} dB"
    click.echo(f"{change} beside {beside}: {found}", err=True)


def profile(
    description: str,
    delegate: str,
    best: Spelling,
    facts: Mapping[str, Any],
    tried: list[SpellingTrial],
) -> str:
    """Return a profile as TOML."""
    lines = [f"description = {_value(description)}", f"delegate = {_value(delegate)}", "", "[forms]"]
    lines += [f"{construct} = {_value(best[construct])}" for construct in FORMS]
    lines += ["", "[measured]", *(f"{_key(k)} = {_value(v)}" for k, v in facts.items() if v is not None)]
    for each in tried:
        row = {"change": each.change, "against": dict(each.against.forms), "ratio": each.ratio}
        row |= {"costs": each.costs and [*each.costs], "decibels": each.decibels, "failure": each.failure}
        lines += ["", "[[measured.tried]]", *(f"{k} = {_value(v)}" for k, v in row.items() if v is not None)]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() else json.dumps(name)


def _value(value: Any) -> str:
    """Return a value as TOML, whose strings and lists of numbers are JSON's."""
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
            if value
            else "{}"
        )
    return "inf" if value == math.inf else json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
