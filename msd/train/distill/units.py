"""The units that a recovery's student lacks: chosen by weights alone, or on points of what it learns from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from msd.compress.calibration.inputs import Runs
from msd.compress.encoding.encode import stored_bytes
from msd.compress.encoding.recipe import Recipe, find_recipe
from msd.compress.pruning.observations import Observed
from msd.compress.pruning.observe import simplify
from msd.compress.pruning.prune import prune
from msd.compress.pruning.settings import Pruning
from msd.conversion.settings import Settings
from msd.conversion.trace import traced_model_for_file
from msd.files import schema
from msd.files.atomic import atomic_write
from msd.files.fingerprint import fingerprint
from msd.files.scratch import scratch_folder
from msd.graph.ir import Graph, Model
from msd.graph.ir.interface import Interface
from msd.graph.ir.weights import Array
from msd.graph.ledger import ComponentPruning
from msd.graph.rewrite import Rewrite
from msd.models.families.calls import InputSource
from msd.models.families.stable_diffusion import UNET
from msd.tensor_spec import TensorSpec
from msd.train.distill.blocks import points_of
from msd.train.distill.conditioning import OF_IMAGES, sinusoids_of
from msd.train.distill.networks import Networks
from msd.train.distill.passes import Points, PointSource
from msd.train.distill.refit import POINTS, RUNS, array_of, points_of_run
from msd.train.distill.settings import DistillationSettings
from msd.train.pytorch.narrowing import Narrowing, job_of, narrowing_of
from msd.train.pytorch.ports import Ports, wiring_of

if TYPE_CHECKING:
    from accelerate import Accelerator

PLAIN_RECIPE = "float32"
"""The recipe of what is only observed, and of prune reports, which do not say how weights are stored."""


@dataclass(frozen=True)
class PrunedUnits:
    """What a U-Net lacks, as a prune report says it, and what stays of its tensors."""

    record: ComponentPruning | None = None
    narrowing: Narrowing = field(default_factory=Narrowing)

    def save(self, path: Path) -> None:
        """Write the choice; raises OutputUnwritable."""
        kept = {name: [axis.tolist() for axis in axes] for name, axes in self.narrowing.kept.items()}
        facts = {"record": schema.to_json(self.record) if self.record else None, "kept": kept}
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(facts), "utf-8")

    @staticmethod
    def read(path: Path) -> PrunedUnits:
        """Return the choice that `save` wrote."""
        facts = json.loads(path.read_text("utf-8"))
        kept = {name: tuple(map(_indices, axes)) for name, axes in facts["kept"].items()}
        found = facts["record"]
        record = schema.read(ComponentPruning, found, path.name) if found else None
        return PrunedUnits(record, Narrowing(kept))


def _indices(axis: list[int]) -> Array:
    return np.array(axis, np.int64)


Choose = Callable[[Recipe, Pruning], PrunedUnits]
"""Returns the units that a U-Net loses by a pruning, for which the recipe says what bytes they take."""


def prune_units(
    teacher: Networks, calibration: Observed | None, recipe: Recipe, pruning: Pruning
) -> PrunedUnits:
    """Return the units that msd-convert prunes; raises BadConfig for an impossible budget or share."""
    records: list[ComponentPruning | None] = []

    def remove(graph: Graph) -> None:
        report = prune({UNET.name: graph}, pruning, partial(stored_bytes, recipe), calibration)
        records.append(report.of(UNET.name))

    narrowing = narrowing_of(teacher.checkpoint, UNET.name, remove)
    return PrunedUnits(records[0] if narrowing.kept else None, narrowing)


@dataclass(frozen=True)
class ChoiceOnPoints:
    """Chooses on points of what a student learns from, made when they are needed, where the criterion asks.

    The student is refitted on the same points afterwards. `key` is the fingerprint of the source. One process
    chooses; the state folder keeps it for later runs.
    """

    teacher: Networks
    settings: DistillationSettings
    source: Callable[[], PointSource]
    key: str
    accelerator: Accelerator
    on_begin: Callable[[], None]

    def __call__(self, recipe: Recipe, pruning: Pruning) -> PrunedUnits:
        """Return the units that the U-Net loses; raises BadConfig and OutputUnwritable."""
        if not pruning.needs_calibration:
            return prune_units(self.teacher, None, recipe, pruning)
        source, goal, seed = self.source(), self.settings.goal, self.settings.data.seed
        seen = [self.key, goal.grid_steps, goal.both_passes, seed, RUNS * POINTS]
        key = fingerprint([*seen, recipe.digest, asdict(pruning)])
        path = self.settings.state / f"pruned-{key[:12]}.json"
        if self.accelerator.is_main_process and not path.exists():
            self.on_begin()
            draw = points_of(source, goal.grid_steps, goal.both_passes)
            points = (points_of_run(draw, seed, number) for number in range(RUNS))
            with scratch_folder() as folder:
                observed = observe_points(self.teacher, points, self.settings.rules, folder)
                prune_units(self.teacher, observed, recipe, pruning).save(path)
        self.accelerator.wait_for_everyone()
        return PrunedUnits.read(path)


def observe_points(
    teacher: Networks, points: Iterable[Points], rules: Sequence[Rewrite], folder: Path
) -> Observed:
    """Return the whole U-Net with what its file reads at points; files go to `folder`."""
    job = job_of(teacher.checkpoint, Settings(rules, find_recipe(PLAIN_RECIPE)), UNET.name)
    inputs = _sources(teacher, traced_model_for_file(job, UNET.name))
    files: list[Path] = []
    for given in chain.from_iterable(_inputs(teacher, some, inputs) for some in points):
        files.append(folder / f"{len(files):05}.npz")
        np.savez(files[-1], **given)
    faster = partial(simplify, job.settings.active_rules, job.settings.effective_target)
    runs = {UNET.name: Runs(tuple(files))}
    return Observed(lambda name: traced_model_for_file(job, name).main, runs, folder, faster)


def _sources(teacher: Networks, model: Model) -> list[tuple[TensorSpec, InputSource]]:
    """Return the inputs of the U-Net's file, each with the first source of what the family gives it."""
    interface = Interface.of(model, teacher.folder)
    ports = Ports(tuple(interface.inputs.values()), tuple(interface.outputs.values()))
    call = wiring_of(teacher.checkpoint, {UNET.name: ports}).denoiser
    return [(interface.inputs[each.name], each.sources[0]) for each in call.inputs]


def _inputs(
    teacher: Networks, points: Points, inputs: Sequence[tuple[TensorSpec, InputSource]]
) -> list[dict[str, Array]]:
    """Return what the file of the U-Net reads at each of the points."""
    conditions = teacher.conditions(points.ids)
    read = {}
    for spec, source in inputs:
        if source.kind == "latent":
            read[spec.name] = points.latents.permute(0, 2, 3, 1)
        elif source.kind == "value":
            read[spec.name] = conditions[spec.name]
        else:
            read[spec.name] = sinusoids_of(_numbers(teacher, points, source), source, spec.shape[-1])
    arrays = {name: array_of(values) for name, values in read.items()}
    return [{name: rows[i : i + 1] for name, rows in arrays.items()} for i in range(len(points.ids))]


def _numbers(teacher: Networks, points: Points, source: InputSource) -> Any:
    """Return the numbers (N, count) of points: their timesteps, or those of their images' size."""
    if source.of == OF_IMAGES:
        return teacher.prompts.numbers(source).repeat(len(points.ids), 1)
    return points.timesteps[:, None]
