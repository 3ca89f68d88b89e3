"""Choose the spelling of a network: by time on this machine's GPU, or by the bytes that the rules count.

    python -m scripts.lab.tune_spelling sd21-base --by time -o configs/spellings/litert-h100.toml
    python -m scripts.lab.tune_spelling sd21-base --by bytes -o configs/spellings/litert-fewest-bytes.toml

MODEL is a name of configs/models/, whose weights are drawn from a seed, or a checkpoint, of which only the
sizes count. By time, every run of a spelling is followed by one of the best so far, from inputs in memory to
outputs in memory, and the ratio is that of the medians. By bytes, nothing runs: the ratio is that of the
activations that a run reads and writes after the delegate has joined what it joins
(msd/graph/prediction/fusion.py).
What was tried stands in the profile, which is written anew after each comparison.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from msd.conversion.sources.formats import open_checkpoint
from msd.errors import MsdError
from msd.files.configs import CONFIGS
from msd.graph import tflite
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.graph.prediction.device import Device, find_device
from msd.graph.prediction.fusion import fused
from msd.graph.prediction.registry import delegates, find_delegate
from msd.graph.prediction.rules import predict
from msd.graph.prediction.traffic import traffic
from msd.graph.rewrite import Target
from msd.graph.rewrite.spelling import FORMS, Spelling, find_spelling
from msd.models.families.stable_diffusion import STABLE_DIFFUSION
from msd.models.networks import Configs, networks, read_configs, size_of
from msd.models.structure import Structure
from msd.models.structure_cache import structure_of
from msd.run.runners import adapter
from msd.run.runners.backends.litert_gpu import GpuProcess
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions
from msd.run.runners.timings import Effort, interleaved
from scripts.judge_full_size import random_model
from scripts.lab.measured import machine
from scripts.lab.nvidia_smi import gpu_name
from scripts.lab.spelling_search import EVERY, Compare, Search, SpellingTrial

KEEP = {"time": 0.995, "bytes": 0.9999}
"""A change stays below these ratios; runs in turn repeat to some tenths of a per cent."""

WARMUPS = 3

TOGETHER = min(12, os.cpu_count() or 1)
"""The files that are written, then compiled, at a time; one of SD 2.1's U-Net takes 6 GB to compile."""


@click.command()
@click.argument("model")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--by", type=click.Choice(["time", "bytes"]), default="time", show_default=True)
@click.option("--only", multiple=True, help="Try a construct, as in gelu, or one form, as in gelu=builtin.")
@click.option(
    "--measure", help="Only compare this profile, of configs/spellings or a file, with the standard."
)
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
    measure: str | None,
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
    forms = chosen_forms(only)
    network = SpelledNetwork(model, component, recipe)
    target = find_device(device).under(delegate)
    facts: dict[str, Any] = {"command": "python -m scripts.lab.tune_spelling " + " ".join(sys.argv[1:])}
    facts |= {"model": model, "component": component, "by": by, "machine": machine()}
    description = f"the fewest {by} of {model}'s {component} with {delegate}"

    def report(trial: SpellingTrial) -> None:
        say(trial)
        output.write_text(profile(description, delegate, search.best, facts, search.tried), "utf-8")

    with ExitStack() as stack:
        search = Search(network.by_bytes(target), KEEP[by], report=report)
        if by == "time":
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            turning = stack.enter_context(InTurn(network, folder, precision, turns))
            search = Search(turning, KEEP[by], turning.prepare, report)
            facts |= {"gpu": gpu_name() or turning.adapter.name, "precision": precision}
            facts |= {"turns": turns, "ai-edge-litert": version("ai-edge-litert")}
        if measure:
            search.best = replace(find_spelling(measure), name="")
        else:
            search.run(forms)
        total = search.compare(search.best, Spelling())
    facts |= {"ratio": total.ratio, "decibels": total.decibels}
    search.tried.append(total)
    report(total)


def chosen_forms(only: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the forms that `--only` chooses; raises UsageError for one that does not exist."""
    for each in only:
        if not any(each in (construct, f"{construct}={form}") for construct, form in EVERY):
            raise click.UsageError(f"--only {each} is neither a construct nor one of its other forms.")
    return [(c, f) for c, f in EVERY if not only or c in only or f"{c}={f}" in only]


@cache
def structure_of_model(model: str, component: str) -> Structure:
    """Return the structure of a public model's component, or of a checkpoint's."""
    described = CONFIGS / "models" / f"{model}.toml"
    if described.exists():
        configs: Configs = read_configs(STABLE_DIFFUSION, tomllib.loads(described.read_text("utf-8")))
    else:
        configs = open_checkpoint(Path(model)).configs
    size = size_of(STABLE_DIFFUSION, configs)
    return structure_of(networks(STABLE_DIFFUSION, configs, size)[component])


class SpelledNetwork:
    """A component of a model, with random weights, in any spelling."""

    def __init__(self, model: str, component: str, recipe: str) -> None:
        self.name, self.component, self.recipe = model, component, recipe

    def model(self, spelling: Spelling) -> Any:
        """Return the rewritten and encoded model, whose weights are drawn when read."""
        structure, target = structure_of_model(self.name, self.component), Target(Device(), spelling=spelling)
        return random_model(structure, self.component, self.recipe, target)[0]

    def write(self, spelling: Spelling, path: Path) -> None:
        """Write the spelling's .tflite file."""
        tflite.write(self.model(spelling), path)

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
        self.adapter = adapter.find()
        self.conditions = Conditions(precision=precision, adapter=self.adapter)
        self.inputs: dict[str, Array] = {}
        self.standard: dict[str, Array] = {}
        self.opened: dict[Spelling, GpuProcess] = {}
        self.refused: dict[Spelling, str] = {}
        self.ahead: set[Spelling] = set()
        self.compared: tuple[Spelling, ...] = ()

    def __enter__(self) -> InTurn:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_but()

    def __call__(self, one: Spelling, other: Spelling) -> SpellingTrial:
        """Return the medians' ratio, and the distance of the outputs from the standard spelling's."""
        self.compared = one, other
        self.close_but(*self.compared, *self.ahead)
        self.ahead.discard(one)
        self.open_all(self.compared)
        if one in self.refused or other in self.refused:
            return SpellingTrial(one, other, None, failure=self.refused.get(one) or self.refused[other])
        try:
            self.standard = self.standard or self.run(other)
            outputs = self.run(one)
            runs = [self.timed(one), self.timed(other)]
            interleaved(runs, Effort(WARMUPS, 0, 0.0, float("inf")), lambda turn, last: None)
            times = interleaved(runs, Effort(self.turns, 0, 0.0, float("inf")), lambda turn, last: None)
        except MsdError as error:
            return SpellingTrial(one, other, None, failure=str(error))
        if not all(np.isfinite(found).all() for found in outputs.values()):
            return SpellingTrial(one, other, None, failure="its outputs are not finite")
        costs = median(times[0]), median(times[1])
        decibels = round(min(psnr(self.standard[name], found) for name, found in outputs.items()), 1)
        ratio = round(costs[0] / costs[1], 4)
        return SpellingTrial(one, other, ratio, costs=costs, decibels=decibels)

    def prepare(self, spellings: Sequence[Spelling]) -> None:
        """Open spellings that are to be compared next, and close those that were to be."""
        self.ahead = {Spelling(), *spellings}
        self.close_but(*self.compared, *self.ahead)
        self.open_all(spellings)

    def open_all(self, spellings: Sequence[Spelling]) -> None:
        """Write and compile those that aren't open yet, side by side; one that can't be says why later."""
        missing = [spelling for spelling in spellings if spelling not in self.opened]
        paths = [self.folder / f"{place}.tflite" for place, _ in enumerate(missing)]
        with ProcessPoolExecutor(TOGETHER, get_context("spawn")) as pool:
            list(pool.map(self.network.write, missing, paths))
        with ThreadPoolExecutor(TOGETHER) as threads:
            list(threads.map(self.open, missing, paths))

    def open(self, spelling: Spelling, path: Path) -> None:
        """Compile the spelling's file for the GPU alone, and delete it."""
        try:
            self.opened[spelling] = GpuProcess(path, self.conditions).__enter__()
        except MsdError as error:
            self.refused[spelling] = str(error)
        finally:
            path.unlink()

    def run(self, spelling: Spelling) -> dict[str, Array]:
        """Return the outputs of a spelling."""
        self.inputs = self.inputs or random_inputs(self.opened[spelling].inputs.values())
        return self.opened[spelling].run(self.inputs)

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
    tried: Sequence[SpellingTrial],
) -> str:
    """Return a profile as TOML."""
    lines = [f"description = {_value(description)}", f"delegate = {_value(delegate)}", "", "[forms]"]
    lines += [f"{construct} = {_value(best[construct])}" for construct in FORMS]
    lines += ["", "[measured]", *(f"{_key(k)} = {_value(v)}" for k, v in facts.items() if v is not None)]
    for each in tried:
        row: dict[str, Any] = {"change": each.change, "against": dict(each.against.forms)}
        row |= {"ratio": each.ratio, "costs": each.costs and [*each.costs]}
        row |= {"decibels": each.decibels, "failure": each.failure}
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
