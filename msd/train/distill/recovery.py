"""What a pruned or quantised U-Net is: the units that it lacks, and the integers that its weights become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from msd.compress.encoding.encode import lines_of
from msd.compress.encoding.recipe import INTEGERS, Line, Recipe, find_recipe
from msd.compress.pruning.prune import prune
from msd.compress.pruning.recorded import shares_of
from msd.compress.pruning.settings import CRITERIA, Pruning, parse_pruning
from msd.conversion.settings import Settings
from msd.conversion.trace import traced_model
from msd.errors import BadConfig
from msd.files import bounded, schema
from msd.files.fingerprint import fingerprint
from msd.files.wording import counted
from msd.graph.ledger import ComponentPruning
from msd.graph.rewrite import Rewrite, apply
from msd.models.families.stable_diffusion import UNET
from msd.train.distill.fake_quantization import keeps_scale
from msd.train.distill.networks import Networks
from msd.train.distill.swings import BYTES
from msd.train.distill.units import PLAIN_RECIPE, Choose, PrunedUnits, prune_units
from msd.train.pytorch.narrowing import Narrowing, job_of

BEGINS = "refitted, int4 compensated and held, guided"
"""How the student of a recovery begins and learns; earlier versions did less of it."""


@dataclass(frozen=True)
class RecoveryPlan:
    """The student of a recovery: what of it is pruned, if anything, and the weights that become integers."""

    record: ComponentPruning | None
    narrowing: Narrowing
    integers: Mapping[str, Line]

    @property
    def has_int4(self) -> bool:
        """Whether weights are trained in int4 with scales that stay."""
        return any(map(keeps_scale, self.integers.values()))

    def swings_bytes(self, unet: Any) -> int:
        """Return the bytes that int4 takes in a training of `unet` beside its weights."""
        kept = (unet.get_parameter(name) for name, line in self.integers.items() if keeps_scale(line))
        return BYTES * sum(int(weight.numel()) for weight in kept)

    @property
    def key(self) -> str:
        """A fingerprint of the plan."""
        lines = {name: asdict(line) for name, line in self.integers.items()}
        return fingerprint([self.record and asdict(self.record), lines, BEGINS])

    @property
    def pruned(self) -> dict[str, Any]:
        """What distillation.json says of the pruned units, by component, as a prune report does."""
        return {UNET.name: schema.to_json(self.record)} if self.record else {}

    @property
    def summary(self) -> str:
        """The plan in words."""
        parts = []
        if self.record:
            share = 100 * self.record.removed / self.record.parameters
            parts.append(f"{self.record.removed / 1e6:.3g} M parameters pruned, {share:.3g} %")
        for store in INTEGERS:
            if count := sum(line.store == store for line in self.integers.values()):
                parts.append(f"{counted(count, 'weight')} rounded to {store}")
        return ", ".join(parts)


def plan_recovery(
    teacher: Networks, pruned: str, rules: Sequence[Rewrite], choose: Choose | None = None
) -> RecoveryPlan:
    """Return what msd-convert with a recipe, or a prune report, makes of a teacher's U-Net.

    `pruned` is the recipe's name or file, or the report's file, which ends in .json; `rules` are the rewrites
    that a conversion applies; `choose` decides what goes, by default by weights alone. Raises BadConfig for
    what has nothing to recover, or does not fit the teacher.
    """
    choose = choose or partial(prune_units, teacher, None)
    is_report = pruned.endswith(".json")
    recipe = find_recipe(PLAIN_RECIPE if is_report else pruned)
    report = _read_report(Path(pruned)) if is_report else None
    units = PrunedUnits()
    if report:
        units = _as_reported(choose, report, pruned)
    elif pruning := _recipe_pruning(recipe):
        units = choose(recipe, pruning)
    integers = _integers(teacher, recipe, rules, units.record)
    if not units.narrowing.kept and not integers:
        raise BadConfig(
            f"{pruned} neither prunes the U-Net nor stores integers of it: nothing is lost to be recovered"
        )
    return RecoveryPlan(units.record, units.narrowing, integers)


def _recipe_pruning(recipe: Recipe) -> Pruning | None:
    """Return the pruning of a recipe; training takes the place of a refit."""
    if recipe.prune is None:
        return None
    pruning = parse_pruning(recipe.prune)
    if others := [name for name in pruning.components if name != UNET.name]:
        raise BadConfig(
            f"the recipe {recipe.name} prunes {', '.join(others)}, and only a {UNET.name} can be recovered"
        )
    return replace(pruning, refit=False, components=(UNET.name,))


def _read_report(path: Path) -> ComponentPruning:
    """Return the part about the U-Net of the file that `msd-convert --prune-report` writes."""
    try:
        report = schema.read(dict[str, ComponentPruning], bounded.read_json(path), path.name)
    except (OSError, ValueError) as problem:
        raise BadConfig(f"{path} is no prune report of msd-convert: {problem}") from problem
    if UNET.name not in report:
        raise BadConfig(f"{path} says that nothing of a {UNET.name} was pruned: there is nothing to recover")
    found: ComponentPruning = report[UNET.name]
    if found.criterion not in CRITERIA:
        raise BadConfig(f"{path} was pruned by {found.criterion!r}, which is none of {', '.join(CRITERIA)}")
    return found


def _as_reported(choose: Choose, report: ComponentPruning, path: str) -> PrunedUnits:
    """Return units of the widths of a prune report; raises BadConfig for the report of another model."""

    def facts(pruning: ComponentPruning) -> list[tuple[Any, ...]]:
        return sorted((u.unit, u.kind, u.groups, u.width, u.kept, u.whole_groups) for u in pruning.units)

    pruning = replace(shares_of(report), criterion=report.criterion, components=(UNET.name,))
    other = f"{path} is the prune report of another model"
    try:
        units = choose(find_recipe(PLAIN_RECIPE), pruning)
    except BadConfig as problem:
        raise BadConfig(f"{other}: {problem}") from problem
    if units.record is None or facts(units.record) != facts(report):
        raise BadConfig(f"{other}: its units have other widths")
    return units


def _integers(
    teacher: Networks, recipe: Recipe, rules: Sequence[Rewrite], record: ComponentPruning | None
) -> dict[str, Line]:
    """Return how the file stores those matrices and filters of the checkpoint that become integers."""
    tensors = teacher.checkpoint.weights[UNET.name]
    if not any(line.store in INTEGERS for line in recipe.lines):
        return {}
    job = job_of(teacher.checkpoint, Settings(rules, recipe), UNET.name)
    graph = traced_model(job, UNET.name).main
    if record:
        prune({UNET.name: graph}, shares_of(record), lambda name, tensor: 0.0)
    apply(graph, job.settings.active_rules, job.settings.effective_target)
    lines, _ = lines_of(graph, recipe, UNET.name)
    return {
        name: line
        for tensor, line in lines.items()
        for name in tensor.weights.sources
        if line.store in INTEGERS and len(tensors[name].shape) > 1
    }
