"""The calibration of pruning: the unpruned networks, and their inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msd.bundle import Bundle
from msd.compress.calibration.generated_inputs import Calibration
from msd.compress.calibration.inputs import Runs, open_folder
from msd.compress.pruning.observations import Observed
from msd.graph.ir import Graph, Model
from msd.graph.ir.interface import Interface
from msd.graph.rewrite import Rewrite, Target, apply

KEEPING = frozenset({"canonicalize", "fuse"})
"""Phases of rewrites that preserve values and make networks faster; later phases are for GPUs."""


@dataclass(frozen=True)
class UnprunedNetworks:
    """The checkpoint's networks before pruning.

    `fed` builds a component with the inputs of its file; `plain` converts the checkpoint into a folder.
    `rules` are those that a conversion for the device `target` applies.
    """

    fed: Callable[[str], Model]
    plain: Callable[[Path], Bundle]
    rules: Sequence[Rewrite]
    target: Target


def simplify(rules: Sequence[Rewrite], target: Target, graph: Graph) -> None:
    """Rewrite a graph so that the CPU runs it in half the time, to the same numbers in float32."""
    apply(graph, [rule for rule in rules if KEEPING.intersection(rule.phases)], target)


def observe(
    calibration: Calibration, components: Collection[str], networks: UnprunedNetworks, folder: Path
) -> Observed:
    """Return the networks with their inputs from `calibration`; files go to `folder`.

    A file of prompts needs the converted checkpoint, which generates their images; a folder of inputs does
    not. Raises BadCalibration.
    """
    runs: dict[str, Runs]
    if calibration.given is not None and calibration.given.is_dir():
        ports = {name: Interface.of(networks.fed(name), calibration.given) for name in components}
        runs = {name: open_folder(calibration.given, name, port.inputs) for name, port in ports.items()}
    else:
        runs = calibration.runs(networks.plain(folder / "plain"), list(components), folder / "inputs")
    faster = partial(simplify, networks.rules, networks.target)
    return Observed(lambda name: networks.fed(name).main, runs, folder, faster)
