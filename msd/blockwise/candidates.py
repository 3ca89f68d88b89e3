"""Recipes that can be mixed block by block: each stores all weights alike, and may prune."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msd.blockwise.labels import parts
from msd.calibration.drawing import Calibration
from msd.encoding.recipe import Recipe
from msd.errors import BadConfig
from msd.pruning.settings import Line, Pruning, parse_pruning

REFERENCE = "float32"


def require_mixable(candidates: Sequence[Recipe], calibration: Calibration) -> None:
    """Raise BadConfig for recipes that no mix can be made of.

    Each is to store all weights alike, and those that prune do it by one criterion. One that prunes on a
    calibration wants inputs that `msd convert` can be given too.
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
    if len({recipe.name for recipe in candidates} | {REFERENCE}) <= len(candidates):
        raise BadConfig(f"candidates need different names, other than {REFERENCE}")
    _require_one_pruning({recipe.name: p for recipe in candidates if (p := pruning_of(recipe))}, calibration)


def _require_one_pruning(found: Mapping[str, Pruning], calibration: Calibration) -> None:
    for name, pruning in found.items():
        first = next(iter(found))
        if (pruning.criterion, pruning.refit) != (found[first].criterion, found[first].refit):
            raise BadConfig(f"{name} and {first} prune by another criterion or refit; a mix has one of each")
        if pruning.needs_calibration and calibration.given is None:
            raise BadConfig(
                f"{name} prunes on a calibration, which msd convert will need too: "
                "give --calibration PROMPTS.txt or a folder of inputs"
            )


def pruning_of(recipe: Recipe) -> Pruning | None:
    """Return what a recipe prunes, None where nothing; raises BadConfig for a table that says it wrong."""
    return None if recipe.prune is None else parse_pruning(recipe.prune)


def pruned_by_block(pruned: Mapping[str, Any], blocks: Sequence[str]) -> dict[str, tuple[Line, ...]]:
    """Return the lines that prune what a conversion did to one network, by the block that each unit is in.

    `pruned` is `msd.pruning.report.Report.of` the network, or empty. Raises BadConfig for a unit in no block.
    """
    found: dict[str, tuple[Line, ...]] = {block: () for block in blocks}
    for unit in pruned.get("units", ()):
        name = unit["unit"]
        around = {
            part: block for block in blocks for part in parts(block) if f"{name}.".startswith(f"{part}.")
        }
        if not around:
            raise BadConfig(f"{name} was pruned, but is in none of the network's blocks: no mix can have it")
        found[around[max(around, key=len)]] += (Line(name, round(unit["kept"] / unit["width"], 6)),)
    return found
