"""The files that a component becomes: one, but for a text encoder whose delegate has no lookups."""

from __future__ import annotations

from dataclasses import replace

from msd.bundle import LOOKUP
from msd.encoding.compatibility import require_supported
from msd.encoding.recipe import Recipe
from msd.ir import Model
from msd.ir.embedding_lookup import split_lookup
from msd.rewrite import Ledger, ops_by_kind


def parts_of(name: str, model: Model, recipe: Recipe, ledger: Ledger) -> dict[str, Model]:
    """Return an encoded component's models by file, and enter in `ledger` what is cut off.

    Raises BadConfig where the recipe made one that must not be: for its delegate, or for the CPU.
    """
    models, before = {name: model}, ops_by_kind(model.main)
    if recipe.is_classic and (cut := split_lookup(model)):
        models = {LOOKUP: cut[0], name: cut[1]}
        ledger.enter("split_lookup", 1, before, cut[1].main)
    for file, part in models.items():
        require_supported(part, replace(recipe, delegate=None) if file == LOOKUP else recipe, file)
    return models
