"""How to convert a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msd.calibration.generated_inputs import Calibration
from msd.encoding.recipe import DEFAULT, Recipe, find_recipe
from msd.errors import BadConfig
from msd.families import Family
from msd.pruning.settings import Pruning, parse_pruning
from msd.rewrite import Rewrite, Target


@dataclass(frozen=True)
class Settings:
    """How to convert. `components` are by default those that the family requires.

    `height` and `width` are in pixels, None for the checkpoint's own, as is `prediction_type`. `lora` are
    files to merge into the weights, each with its scale. `pruning` overrides the recipe's own, and uses a
    `calibration` if there is one. `networks`: "keras-cv" to build those of keras-cv, "auto" for our own.
    """

    rules: Sequence[Rewrite]
    recipe: Recipe = field(default_factory=lambda: find_recipe(DEFAULT))
    components: tuple[str, ...] = ()
    batch: int = 1
    height: int | None = None
    width: int | None = None
    target: Target = field(default_factory=Target)
    prediction_type: str | None = None
    force: bool = False
    lora: Sequence[tuple[Path, float]] = ()
    networks: str = "auto"
    pruning: Pruning | None = None
    calibration: Calibration | None = None

    @property
    def applied(self) -> list[Rewrite]:
        """Those of `rules` that the recipe leaves on."""
        return [rule for rule in self.rules if rule.name not in self.recipe.without]

    @property
    def aim(self) -> Target:
        """`target`; for a recipe of TensorFlow Lite's delegate, the device as that delegate uses it.

        Other files suit both delegates as far as they can, so they keep to the limits of both.
        """
        device, delegate = self.target.device, self.recipe.delegate
        if delegate is None or not self.recipe.splits_lookup or device.delegate:
            return self.target
        return replace(self.target, device=device.under(delegate))

    def chosen(self, family: Family) -> tuple[str, ...]:
        """Return the components to convert, in order; raises BadConfig for one that the family lacks."""
        if unknown := set(self.components) - set(family.names):
            raise BadConfig(f"there is no component {sorted(unknown)}; choose from {list(family.names)}")
        return family.ordered(self.components or family.required)

    def pruning_of(self, family: Family) -> Pruning | None:
        """Return what to prune, with its components named, or None."""
        wanted = self.pruning
        if wanted is None and self.recipe.prune is not None:
            wanted = parse_pruning(self.recipe.prune)
        return wanted and replace(wanted, components=wanted.components or family.prunable)

    def pruned(self, family: Family) -> tuple[str, ...]:
        """Return the components to prune, in order."""
        wanted = self.pruning_of(family)
        return family.ordered(set(wanted.components) & set(self.chosen(family))) if wanted else ()

    @property
    def unpruned(self) -> Settings:
        """The same with nothing pruned, weights as the default recipe stores them, for calibration."""
        return replace(
            self, recipe=find_recipe(DEFAULT), components=(), pruning=None, calibration=None, force=False
        )
