"""A calibration, as pruning wants it: the whole networks, and what they are fed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from msd.bundle import Bundle
from msd.calibration.drawing import Calibration
from msd.calibration.inputs import Runs, open_folder
from msd.ir import Graph, Model
from msd.ir.interface import Interface
from msd.pruning.passes import Observed
from msd.rewrite import Rewrite, Target, apply

KEEPING = frozenset({"canonicalize", "fuse"})
"""Phases of rewrites that keep numbers and make networks faster; later ones make them such as GPUs take."""


@dataclass(frozen=True)
class Networks:
    """The checkpoint's networks with nothing pruned.

    `fed` makes a component with the inputs that its file takes; `plain` converts the checkpoint into a
    folder. `rules` are what conversions for the device `target` apply.
    """

    fed: Callable[[str], Model]
    plain: Callable[[Path], Bundle]
    rules: Sequence[Rewrite]
    target: Target

    def simplify(self, graph: Graph) -> None:
        """Rewrite a graph so that the CPU runs it in half the time, to the same numbers in float32."""
        apply(graph, [rule for rule in self.rules if KEEPING.intersection(rule.phases)], self.target)


def observe(
    calibration: Calibration, components: Collection[str], networks: Networks, folder: Path
) -> Observed:
    """Return the networks at work on `calibration`; files go to `folder`.

    Prompts are drawn by the converted checkpoint, which a folder of inputs does not need. Raises
    BadCalibration.
    """
    runs: dict[str, Runs]
    if calibration.given is not None and calibration.given.is_dir():
        ports = {name: Interface.of(networks.fed(name), calibration.given) for name in components}
        runs = {name: open_folder(calibration.given, name, port.inputs) for name, port in ports.items()}
    else:
        runs = calibration.runs(networks.plain(folder / "plain"), list(components), folder / "inputs")
    return Observed(lambda name: networks.fed(name).main, runs, folder, networks.simplify)
