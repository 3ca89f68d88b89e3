"""The settings of pruning: a budget, shares of single units, a criterion; parsed strictly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msd.errors import BadConfig, BadValue
from msd.files.toml_keys import require_known_keys
from msd.models.families import component_names

CRITERIA = ("magnitude", "activation", "reconstruction")
UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9}


@dataclass(frozen=True)
class Budget:
    """The amount to prune: a `share` of the parameters in percent, or all but `bytes` of the weights."""

    share: float | None = None
    bytes: int | None = None

    def __str__(self) -> str:
        return f"{self.share:.4g} %" if self.share is not None else f"{(self.bytes or 0) / 1e6:.6g} MB"


@dataclass(frozen=True)
class UnitShare:
    """Keep the share `keep` of every unit whose name matches the pattern `name`."""

    name: str
    keep: float


@dataclass(frozen=True)
class Pruning:
    """The settings of pruning.

    With `refit` None, layers are refitted if there is a calibration; no `components` means those that the
    family prunes.
    """

    budget: Budget | None = None
    shares: tuple[UnitShare, ...] = ()
    criterion: str = "magnitude"
    refit: bool | None = None
    components: tuple[str, ...] = ()

    @property
    def needs_calibration(self) -> bool:
        """Whether pruning needs a calibration."""
        return self.criterion != "magnitude" or bool(self.refit)


def parse_budget(text: str) -> Budget:
    """Return the budget spelled as "15%" or "600 MB"; raises BadValue for anything else."""
    match = re.fullmatch(r"\s*([0-9]{0,9}\.?[0-9]{1,9})\s*(%|kB|MB|GB)\s*", text)
    if not match or float(match[1]) <= 0 or (match[2] == "%" and float(match[1]) >= 100):
        raise BadValue(f"{text!r} is not a budget; give a share as 15% or a size as 600MB")
    if match[2] == "%":
        return Budget(share=float(match[1]))
    return Budget(bytes=int(float(match[1]) * UNITS[match[2]]))


def parse_pruning(table: Mapping[str, Any]) -> Pruning:
    """Return the settings in the table [prune] of a recipe; raises BadConfig for unknown keys and values."""
    known = {"budget", "criterion", "refit", "components", "unit"}
    require_known_keys("[prune]", table, known)
    criterion, refit = table.get("criterion", "magnitude"), table.get("refit", "auto")
    components = _components(table) if "components" in table else ()
    if not isinstance(criterion, str) or criterion not in CRITERIA:
        raise BadConfig(f"[prune] has the criterion {criterion!r}; choose from {', '.join(CRITERIA)}")
    if refit not in ("auto", True, False):
        raise BadConfig(f'[prune] has refit = {refit!r}; it is true, false or "auto"')
    budget = table.get("budget")
    if budget is not None and not isinstance(budget, str):
        raise BadConfig(f'[prune] has budget = {budget!r}; it is a text like "15%" or "600MB"')
    units = table.get("unit", [])
    if not isinstance(units, list) or not all(isinstance(each, dict) for each in units):
        raise BadConfig("[prune] has units that are not tables; write [[prune.unit]] before each")
    return Pruning(
        budget=parse_budget(budget) if budget else None,
        shares=tuple(map(_share, units)),
        criterion=criterion,
        refit=None if refit == "auto" else bool(refit),
        components=components,
    )


def _components(table: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the components that a table names, in the order in which families list them."""
    components, known = table["components"], component_names()
    if not isinstance(components, list) or not components or any(each not in known for each in components):
        raise BadConfig(f"[prune] has components = {components!r}; choose from {', '.join(known)}")
    return tuple(name for name in known if name in components)


def _share(table: Mapping[str, Any]) -> UnitShare:
    require_known_keys("[[prune.unit]]", table, {"name", "keep"})
    name, keep = table.get("name"), table.get("keep")
    if not isinstance(name, str) or not name:
        raise BadConfig(f'[[prune.unit]] has name = {name!r}; it is a pattern like "up_blocks.0.*.conv1"')
    if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 < keep <= 1:
        raise BadConfig(f"[[prune.unit]] {name} has keep = {keep!r}; it is a share above 0, at most 1")
    return UnitShare(name, float(keep))
