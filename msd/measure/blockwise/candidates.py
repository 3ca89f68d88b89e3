"""Recipes that can be mixed block by block: each has one storage format for all weights, and may prune."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msd.compress.calibration.generated_inputs import Calibration
from msd.compress.encoding.recipe import CHOICES, INTEGERS, Recipe, find_recipe
from msd.compress.pruning.settings import Pruning, UnitShare, parse_pruning
from msd.errors import BadConfig
from msd.graph.ledger import PrunedUnit
from msd.measure.blockwise.labels import joined_blocks
from msd.models.families import Component

REFERENCE = "float32"


def require_mixable(candidates: Sequence[Recipe], calibration: Calibration) -> None:
    """Raise BadConfig for recipes that cannot be mixed.

    Each must have one storage format for all weights, and those that prune must share a criterion. One that
    prunes or rounds on a calibration needs inputs that `msd convert` can be given too.
    """
    first = candidates[0]
    for recipe in candidates:
        line = recipe.lines[0] if len(recipe.lines) == 1 else None
        if line is None or line.name or line.op or line.component:
            raise BadConfig(
                f"the recipe {recipe.name} is no candidate: it should have one line, for all weights alike"
            )
        if recipe.without != first.without:
            raise BadConfig(f"{recipe.name} and {first.name} switch off different rewrites; a mix cannot")
    for recipe in candidates:
        if recipe.needs_calibration:
            _require_given(recipe.name, "rounds", calibration)
    if len({recipe.name for recipe in candidates} | {REFERENCE}) <= len(candidates):
        raise BadConfig(f"candidates need different names, other than {REFERENCE}")
    _require_one_pruning({recipe.name: p for recipe in candidates if (p := pruning_of(recipe))}, calibration)


def require_whole(candidates: Sequence[Recipe], components: Sequence[Component]) -> None:
    """Raise BadConfig for a candidate that writes a component as two files, unlike the reference."""
    for recipe in (each for each in candidates if each.splits_lookup):
        for component in (each for each in components if each.lookup):
            raise BadConfig(
                f"{recipe.name} writes the {component.title} as two files, and blocks are compared in one;"
                " name other components with --component"
            )


def _require_one_pruning(prunings: Mapping[str, Pruning], calibration: Calibration) -> None:
    for name, pruning in prunings.items():
        first = next(iter(prunings))
        if (pruning.criterion, pruning.refit) != (prunings[first].criterion, prunings[first].refit):
            raise BadConfig(f"{name} and {first} prune by another criterion or refit; a mix has one of each")
        if pruning.needs_calibration:
            _require_given(name, "prunes", calibration)


def _require_given(name: str, verb: str, calibration: Calibration) -> None:
    if calibration.given is None:
        raise BadConfig(
            f"{name} {verb} on a calibration, which msd convert will need too: "
            "give --calibration PROMPTS.txt or a folder of inputs"
        )


def with_one_trunk(candidates: Sequence[Recipe]) -> list[Recipe]:
    """Return the candidates, of which those with integers all have the trunk that the first of them has."""
    trunk = next((recipe.trunk for recipe in candidates if recipe.trunk), None)
    return [
        replace(recipe, trunk=trunk) if any(line.store in INTEGERS for line in recipe.lines) else recipe
        for recipe in candidates
    ]


def find_candidate(text: str) -> Recipe:
    """Return the recipe NAME|FILE, or of NAME|FILE:ALGORITHM with that algorithm; raises BadConfig."""
    name, colon, algorithm = text.rpartition(":")
    if not colon or algorithm not in CHOICES["algorithm"]:
        return find_recipe(text)
    recipe = find_recipe(name)
    lines = tuple(
        replace(line, algorithm=algorithm) if line.store in INTEGERS else line for line in recipe.lines
    )
    return replace(recipe, name=f"{recipe.name}-{algorithm}", lines=lines)


def pruning_of(recipe: Recipe) -> Pruning | None:
    """Return a recipe's pruning, None where it does not prune; raises BadConfig for an invalid table."""
    return None if recipe.prune is None else parse_pruning(recipe.prune)


def pruned_by_block(units: Sequence[PrunedUnit], blocks: Sequence[str]) -> dict[str, tuple[UnitShare, ...]]:
    """Return the shares of the units that a conversion pruned in one network, by the unit's block.

    Raises BadConfig for a unit in no block.
    """
    shares: dict[str, tuple[UnitShare, ...]] = {block: () for block in blocks}
    for unit in units:
        name = unit.unit
        around = {
            part: block
            for block in blocks
            for part in joined_blocks(block)
            if f"{name}.".startswith(f"{part}.")
        }
        if not around:
            raise BadConfig(f"{name} was pruned, but is in none of the network's blocks: no mix can have it")
        shares[around[max(around, key=len)]] += (UnitShare(name, round(unit.kept / unit.width, 6)),)
    return shares
