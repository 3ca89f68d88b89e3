"""Prune a network that was trained without some of its units: they are zeros in its checkpoint."""

from __future__ import annotations

from msd.compress.pruning.prune import chosen_cuts
from msd.compress.pruning.removal import remove
from msd.compress.pruning.settings import Pruning, UnitShare
from msd.errors import BadCheckpoint, BadConfig
from msd.graph.ir import Graph
from msd.graph.ledger import ComponentPruning


def shares_of(record: ComponentPruning) -> Pruning:
    """Return the settings that prune each unit of a record to its width there, by magnitude.

    Whatever chose what is pruned, in a checkpoint that was trained without it there are zeros.
    """
    shares = tuple(UnitShare(unit.unit, unit.kept / unit.width) for unit in record.units)
    return Pruning(shares=shares, refit=False)


def prune_as_recorded(graph: Graph, component: str, record: ComponentPruning) -> None:
    """Remove from `graph` what its checkpoint says is pruned; weights are read one at a time.

    Raises BadCheckpoint where the units are others, or where what would go is not all zeros.
    """
    graph.remove_dead()
    try:
        cuts = chosen_cuts({component: graph}, shares_of(record), lambda name, tensor: 0.0)[component]
    except BadConfig as problem:
        raise BadCheckpoint(f"{component} is not the network that its record prunes: {problem}") from problem
    for cut in cuts:
        if cut.error:
            raise BadCheckpoint(
                f"{cut.unit.name} of {component} was pruned and trained without some of its {cut.unit.kind},"
                " but they are not zeros: the weights were changed afterwards, as a merged LoRA does"
            )
    for cut in cuts:
        remove(graph, cut.seed, cut.kept)
