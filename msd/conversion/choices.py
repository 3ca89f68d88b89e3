"""From the options of a conversion, as people give them, to its settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from msd.compress.calibration.generated_inputs import Calibration
from msd.compress.encoding.recipe import DEFAULT, Recipe, find_recipe
from msd.compress.pruning.settings import Pruning, parse_budget, parse_pruning
from msd.conversion.client_interface import find_interface
from msd.conversion.options import ConversionOptions
from msd.conversion.settings import Settings
from msd.errors import BadConfig, BadValue
from msd.files.nearest import nearest
from msd.graph.prediction.device import Device, find_device
from msd.graph.rewrite import Rewrite
from msd.graph.rewrite.spelling import find_spelling
from msd.graph.rewrite.target import Target


def conversion_settings(rules: Sequence[Rewrite], **options: Any) -> Settings:
    """Return the settings of a conversion with these `ConversionOptions`; raises BadConfig.

    `rules` are all rewrites that there are.
    """
    chosen = ConversionOptions(**options)
    recipe, device = find_recipe(DEFAULT if chosen.recipe is None else str(chosen.recipe)), chosen.device
    pruning, calibration = _pruning(recipe, chosen)
    names = {each.name for each in fields(ConversionOptions)}
    unchanged = {f.name: getattr(chosen, f.name) for f in fields(Settings) if f.name in names}
    decided = {
        "rules": _rules(rules, recipe, chosen.without),
        "recipe": recipe,
        "recipe_named": chosen.recipe is not None,
        "components": tuple(chosen.components),
        "also": tuple(chosen.also),
        "sizes": tuple(chosen.sizes),
        "target": Target(
            Device() if device is None else find_device(str(device)),
            chosen.gelu_clip,
            find_spelling(str(chosen.spelling)),
        ),
        "pruning": pruning,
        "calibration": calibration,
        "interface": None if chosen.interface is None else find_interface(chosen.interface),
    }
    return Settings(**unchanged | decided)


def _rules(rules: Sequence[Rewrite], recipe: Recipe, without: Sequence[str]) -> list[Rewrite]:
    """Return the rewrites but those `without`; those that the recipe switches off must exist too."""
    names = [rule.name for rule in rules]
    if unknown := set(without) - set(names):
        name = min(unknown)
        hint = nearest(name, names) or f"; there are {', '.join(names)}"
        raise BadValue(f"no rewrite is called {name!r}{hint}")
    if unknown := set(recipe.without) - set(names):
        raise BadConfig(f"the recipe {recipe.name} is without {sorted(unknown)}, which are no rewrites")
    return [rule for rule in rules if rule.name not in without]


def _pruning(recipe: Recipe, chosen: ConversionOptions) -> tuple[Pruning | None, Calibration | None]:
    """Return the recipe's pruning as the options change it; raises BadConfig for a calibration alone."""
    budget, calibration = chosen.prune, chosen.calibration
    pruning = parse_pruning(recipe.prune) if recipe.prune is not None else None
    if budget is not None:
        pruning = replace(pruning or Pruning(), budget=parse_budget(budget))
    if calibration and not pruning and not recipe.is_rounded_on_calibration:
        raise BadConfig(
            "a calibration is for pruning and for rounding: give --prune, or a recipe with a table [prune] or"
            ' with integers by the algorithm "auto" or "gptq"'
        )
    if not chosen.refit:
        if not pruning:
            raise BadConfig("refitting is for pruning: leave out --no-refit (refit=False), or give --prune")
        pruning = replace(pruning, refit=False)
    return pruning, Calibration(Path(calibration)) if calibration else None
