"""Where a recovery begins: layers that read pruned units, refitted to what the whole network's say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from msd.compress.pruning.least_squares import Spool
from msd.files.unwritable import raises_unwritable
from msd.graph.ir.weights import Array
from msd.train.distill.networks import Networks
from msd.train.distill.objectives import Draw
from msd.train.distill.passes import Points, output_of
from msd.train.pytorch.narrowing import Narrowing

RUNS, POINTS = 32, 8
"""The passes that samples come from, and the points of each: as many as 24 captions of 10 steps."""

SAMPLES = ".samples"
"""The ending of the files of samples, which an interrupted run may leave behind."""

Pass = Callable[[Any, int], object]
"""Passes the points of a run, counted from 0, through a U-Net."""


def seeded_passes(teacher: Networks, draw: Draw, seed: int) -> Pass:
    """Return what passes the points of a run through a U-Net."""

    def run(unet: Any, number: int) -> None:
        points = points_of_run(draw, seed, number)
        output_of(unet, points, teacher.conditions(points.ids))

    return run


def points_of_run(draw: Draw, seed: int, number: int) -> Points:
    """Return the points of a run, counted from 0, which `seed` and its number draw."""
    return draw(torch.Generator("cpu").manual_seed(seed * RUNS + number), POINTS)


def refit_narrow(student: Any, whole: Any, narrowing: Narrowing, run: Pass, folder: Path) -> None:
    """Refit a narrow U-Net's layers on points that `run` passes; `folder` holds samples for a while.

    Raises OutputUnwritable where it cannot.
    """
    with raises_unwritable(folder, folder):
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob(f"*{SAMPLES}"):
            path.unlink()
        if readers := readers_of(narrowing, whole):
            refit_layers(student, whole, readers, run, RUNS, folder)


def readers_of(narrowing: Narrowing, whole: Any) -> list[str]:
    """Return the names of the layers that lack inputs and keep all of their outputs."""
    shapes = {name: weight.shape for name, weight in whole.named_parameters()}
    return [
        name.removesuffix(".weight")
        for name, kept in narrowing.kept.items()
        if name.endswith(".weight") and len(kept) > 1
        if len(kept[0]) == shapes[name][0] and len(kept[1]) < shapes[name][1]
    ]


def refit_layers(
    narrow: Any, whole: Any, names: Sequence[str], run: Pass, runs: int, folder: Path
) -> dict[str, tuple[float, float]]:
    """Refit layers of a narrow network by least squares to the outputs of the whole one's, as
    msd/compress/pruning/refit.py does; return each one's error relative to its output, before and after.

    In the narrow network's passes each layer's output is replaced by the whole one's, so that every block
    reads what it reads there, and one pass gives the samples of all layers.
    """
    spools = {name: Spool(folder / f"{number}{SAMPLES}", runs) for number, name in enumerate(names)}
    for number in range(runs):
        with torch.no_grad():
            with _outputs(whole, names) as wanted:
                run(whole, number)
            with _replaced(narrow, wanted, spools):
                run(narrow, number)
    errors = {}
    for name, spool in spools.items():
        errors[name] = _refit(narrow.get_submodule(name), spool)
        spool.path.unlink()
    return errors


@contextmanager
def hooked(network: Any, hooks: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Let functions see what modules of a network read and say, by the modules' names."""
    handles = [network.get_submodule(n).register_forward_hook(hook) for n, hook in hooks.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _outputs(network: Any, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the outputs of layers by name, which the network's pass fills in."""
    outputs = dict[str, Any]()

    def keep(name: str, layer: Any, inputs: Any, output: Any) -> None:
        outputs[name] = output

    with hooked(network, {name: partial(keep, name) for name in names}):
        yield outputs


@contextmanager
def _replaced(network: Any, wanted: Mapping[str, Any], spools: Mapping[str, Spool]) -> Iterator[None]:
    """Spool samples of layers' inputs with the outputs that are wanted of them, which take their place."""

    def replace(name: str, layer: Any, inputs: Any, output: Any) -> Any:
        rows, target = rows_of(layer, inputs[0]), wanted[name].to(output.dtype)
        channels_last = target if isinstance(layer, torch.nn.Linear) else target.movedim(1, -1)
        columns = channels_last.reshape(-1, channels_last.shape[-1])
        chosen = torch.from_numpy(spools[name].positions(len(rows))).to(rows.device)
        spools[name].add(array_of(rows[chosen]), array_of(columns[chosen]))
        return target

    with hooked(network, {name: partial(replace, name) for name in spools}):
        yield


def rows_of(layer: Any, x: Any) -> Any:
    """Return what a layer multiplies its weights by, a row for each place of its output."""
    if isinstance(layer, torch.nn.Linear):
        return x.reshape(-1, x.shape[-1])
    patches = torch.nn.functional.unfold(x, layer.kernel_size, padding=layer.padding, stride=layer.stride)
    return patches.transpose(1, 2).flatten(0, 1)


def array_of(values: Any) -> Array:
    """Return a tensor of any device as float32."""
    array: Array = values.detach().float().cpu().numpy()
    return array


def _refit(layer: Any, spool: Spool) -> tuple[float, float]:
    samples, outputs = spool.samples(), len(layer.weight)
    bias = np.zeros((outputs, 1), np.float32) if layer.bias is None else array_of(layer.bias).reshape(-1, 1)
    weights = np.concatenate([array_of(layer.weight).reshape(outputs, -1), bias], axis=1)
    before = samples.error_of(weights)
    change, after = samples.refit(weights, layer.bias is not None)
    with torch.no_grad():
        layer.weight += torch.from_numpy(change[:, :-1]).reshape(layer.weight.shape).to(layer.weight)
        if layer.bias is not None:
            layer.bias += torch.from_numpy(change[:, -1]).to(layer.bias)
    return before, after
