"""Units chosen on points of what a student learns from: what goes, what is kept of the choice."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from msd.bundle import ImageDefaults
from msd.compress.calibration.generated_inputs import Calibration
from msd.compress.encoding.recipe import find_recipe
from msd.compress.pruning.observations import Observed
from msd.compress.pruning.settings import parse_pruning
from msd.conversion.convert import Settings, convert
from msd.conversion.sources.diffusers import open_folder, read_json
from msd.errors import BadConfig
from msd.files import schema
from msd.graph.parity import psnr
from msd.run.runners.interpreter import Interpreter
from msd.train.distill.blocks import points_of
from msd.train.distill.distill import distill
from msd.train.distill.networks import Networks, open_networks
from msd.train.distill.objectives import Draw
from msd.train.distill.passes import output_of
from msd.train.distill.recovery import plan_recovery
from msd.train.distill.refit import POINTS, RUNS, points_of_run
from msd.train.distill.settings import DistillationSettings, Goal, TeacherData, Training
from msd.train.distill.source import plan_source
from msd.train.distill.training import TrainingProgress
from msd.train.distill.units import ChoiceOnPoints, PrunedUnits, observe_points, prune_units
from msd.train.pytorch.modules import network_call
from tests.checkpoints import TINY, vary, write
from tests.test_distill import observer, weights
from tests.test_distill_recovery import CLOSE, RULES, decibels

SMALL = vary(TINY, unet={"sample_size": [4, 6]})
RECIPE = """
[[line]]
store = "int8"
algorithm = "min-max"

[prune]
budget = "20%"
criterion = "{criterion}"
"""
CRITERIA = ("activation", "reconstruction")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    write(tmp_path / "teacher", SMALL)
    return tmp_path / "teacher"


def recipe_of(folder: Path, criterion: str) -> Path:
    path = folder / f"{criterion}.toml"
    path.write_text(RECIPE.format(criterion=criterion), "utf-8")
    return path


@pytest.fixture
def settings(tmp_path: Path) -> DistillationSettings:
    return settings_in(tmp_path)


def settings_in(folder: Path) -> DistillationSettings:
    (folder / "prompts.txt").write_text("red\nreed\n", "utf-8")
    return DistillationSettings(
        data=TeacherData(folder / "prompts.txt", 2, seed=3),
        goal=Goal(recover=str(recipe_of(folder, "reconstruction"))),
        state=folder / "state",
        training=Training(updates=22, batch=2, rate=1e-3, warmup=1),
        save_every=19,
        rules=RULES,
    )


@pytest.fixture
def choices(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The criteria by which units were chosen on points."""
    made: list[str] = []

    def choose(*given: Any) -> PrunedUnits:
        made.append(given[3].criterion)
        return prune_units(*given)

    monkeypatch.setattr("msd.train.distill.units.prune_units", choose)
    return made


def kept_names(units: PrunedUnits) -> dict[str, list[list[int]]]:
    return {name: [axis.tolist() for axis in axes] for name, axes in units.narrowing.kept.items()}


def drawn_by(teacher: Networks, settings: DistillationSettings) -> Draw:
    """Return what draws the points on which units are chosen."""
    from accelerate import Accelerator

    goal = replace(settings.goal, usual=ImageDefaults())
    source = plan_source(teacher, replace(settings, goal=goal)).make(Accelerator(), lambda done, total: None)
    return points_of(source, goal.grid_steps, goal.both_passes)


def observed_inputs(teacher: Networks, settings: DistillationSettings, folder: Path) -> Observed:
    """Return the U-Net with what it reads at points, which go to `folder`."""
    folder.mkdir(parents=True)
    draw, seed = drawn_by(teacher, settings), settings.data.seed
    points = (points_of_run(draw, seed, number) for number in range(RUNS))
    return observe_points(teacher, points, RULES, folder)


@dataclass(frozen=True)
class Seen:
    """A teacher in `folder`, what its U-Net reads at the points of some settings, and these."""

    folder: Path
    settings: DistillationSettings
    teacher: Networks
    observed: Observed


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The U-Net's inputs are in `folder / "inputs"`; read only."""
    folder = tmp_path_factory.mktemp("seen")
    write(folder / "teacher", SMALL)
    settings, teacher = settings_in(folder), open_networks(folder / "teacher", "cpu")
    return Seen(folder, settings, teacher, observed_inputs(teacher, settings, folder / "inputs" / "unet"))


def choose(teacher: Networks, settings: DistillationSettings) -> PrunedUnits:
    """Return the units that the recipe of the settings prunes, chosen on points of their source."""
    from accelerate import Accelerator

    settings = replace(settings, goal=replace(settings.goal, usual=ImageDefaults()))
    source, accelerator = plan_source(teacher, settings), Accelerator()
    chosen = ChoiceOnPoints(
        teacher=teacher,
        settings=settings,
        source=lambda: source.make(accelerator, lambda done, total: None),
        key=source.key,
        accelerator=accelerator,
        on_begin=lambda: None,
    )
    recipe = find_recipe(str(settings.goal.recover))
    return chosen(recipe, parse_pruning(recipe.prune or {}))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_recovery_prunes_what_a_conversion_calibrated_on_its_points_prunes(
    criterion: str, tmp_path: Path, seen: Seen
) -> None:
    """And other units than their weights alone say."""
    teacher, observed, recipe = seen.teacher, seen.observed, recipe_of(tmp_path, criterion)
    plan = plan_recovery(teacher, str(recipe), RULES, lambda r, p: prune_units(teacher, observed, r, p))
    asked = Settings(
        RULES, find_recipe(str(recipe)), ("unet",), calibration=Calibration(seen.folder / "inputs")
    )
    done = convert(seen.folder / "teacher", tmp_path / "converted", asked).ledger["unet"].pruning
    assert plan.record is not None
    assert done is not None
    assert plan.record.criterion == done.criterion == criterion
    assert [(u.unit, u.kept) for u in plan.record.units] == [(u.unit, u.kept) for u in done.units]
    assert plan.record.units
    by_weights = plan_recovery(teacher, str(recipe_of(tmp_path, "magnitude")), RULES)
    assert kept_names(PrunedUnits(plan.record, plan.narrowing)) != kept_names(
        PrunedUnits(by_weights.record, by_weights.narrowing)
    )


def test_on_what_is_observed_the_file_says_what_pytorch_says_at_these_points(
    tmp_path: Path, seen: Seen
) -> None:
    """With prompts and without one."""
    teacher, settings, inputs = seen.teacher, seen.settings, seen.folder / "inputs" / "unet"
    assert len(list(inputs.glob("*.npz"))) == RUNS * POINTS == 256
    convert(seen.folder / "teacher", tmp_path / "float", Settings(RULES, find_recipe("float32"), ("unet",)))
    points = points_of_run(drawn_by(teacher, settings), settings.data.seed, 0)
    with torch.no_grad():
        wanted = output_of(teacher.unet, points, teacher.conditions(points.ids)).permute(0, 2, 3, 1).numpy()
    assert {tuple(ids) for ids in points.ids.tolist()} > {tuple(teacher.token_ids([""])[0].tolist())}
    with Interpreter(tmp_path / "float" / "unet.tflite", float_weights=True) as network:
        for number in range(POINTS):
            found = network.run(dict(np.load(inputs / f"{number:05}.npz")))["noise"]
            assert psnr(wanted[number : number + 1], found) > CLOSE


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_student_converts_to_the_network_that_it_is_in_pytorch(
    criterion: str, tmp_path: Path, checkpoint: Path, settings: DistillationSettings
) -> None:
    """Without a calibration, with any recipe; distillation.json says by what it was pruned."""
    recipe = recipe_of(tmp_path, criterion)
    goal = Goal(recover=str(recipe))
    distill(checkpoint, tmp_path / "student", replace(settings, goal=goal), observer())
    facts = json.loads((tmp_path / "student" / "distillation.json").read_text())
    assert facts["pruned"]["unet"]["criterion"] == criterion
    asked = Settings(RULES, find_recipe(str(recipe)), ("unet",))
    pruned = convert(tmp_path / "student", tmp_path / "int8", asked).ledger["unet"].pruning
    assert pruned is not None
    assert pruned.criterion == criterion
    assert schema.to_json(pruned)["units"] == facts["pruned"]["unet"]["units"]
    convert(tmp_path / "student", tmp_path / "float", replace(asked, recipe=find_recipe("float32")))
    student = open_folder(tmp_path / "student")
    call = network_call(student, "unet", read_json(tmp_path / "student", "unet/config.json"), "cpu")
    embed = open_networks(checkpoint, "cpu").unet.time_proj
    assert decibels(tmp_path / "float", call, embed) > CLOSE


def test_an_interrupted_recovery_goes_on_with_the_units_that_it_had_chosen(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings, choices: list[str]
) -> None:
    told: list[str] = []
    watching = replace(observer(), on_choice=lambda: told.append("choosing"))
    distill(checkpoint, tmp_path / "whole", settings, watching)
    assert choices == ["reconstruction"]
    assert told == ["choosing"]
    stopped = replace(settings, state=tmp_path / "other")

    def interrupt(progress: TrainingProgress) -> None:
        if progress.update == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill(checkpoint, tmp_path / "again", stopped, replace(watching, on_progress=interrupt))
    assert len(told) == len(choices) == 2
    distill(checkpoint, tmp_path / "again", stopped, watching)
    assert len(told) == len(choices) == 2
    whole, again = (weights(tmp_path / name) for name in ("whole", "again"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"seed": 4}},
        {"goal": {"steps": 4}},
        {"recipe": 'budget = "20%"', "to": 'budget = "30%"'},
        {"recipe": 'criterion = "reconstruction"', "to": 'criterion = "activation"'},
    ],
    ids=["seed", "steps", "budget", "criterion"],
)
def test_what_changes_the_choice_makes_another(
    change: dict[str, Any],
    tmp_path: Path,
    checkpoint: Path,
    settings: DistillationSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Observes nothing: it asks whether a choice that was saved is taken again."""
    made: list[None] = []
    monkeypatch.setattr("msd.train.distill.units.observe_points", lambda *given: None)
    monkeypatch.setattr(
        "msd.train.distill.units.prune_units", lambda *given: made.append(None) or PrunedUnits()
    )
    teacher = open_networks(checkpoint, "cpu")
    choose(teacher, settings)
    choose(teacher, settings)
    assert len(made) == 1
    if "recipe" in change:
        path = Path(str(settings.goal.recover))
        path.write_text(path.read_text().replace(change["recipe"], change["to"]))
    other = replace(
        settings,
        data=replace(settings.data, **change.get("data", {})),
        goal=replace(settings.goal, **change.get("goal", {})),
    )
    choose(teacher, other)
    assert len(made) == 2


def test_a_report_is_followed_by_its_own_criterion(tmp_path: Path, seen: Seen) -> None:
    teacher, observed, settings = seen.teacher, seen.observed, seen.settings
    choose = lambda recipe, pruning: prune_units(teacher, observed, recipe, pruning)  # noqa: E731
    by_recipe = plan_recovery(teacher, str(settings.goal.recover), RULES, choose)
    assert by_recipe.record is not None
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"unet": schema.to_json(by_recipe.record)}))
    by_report = plan_recovery(teacher, str(path), RULES, choose)
    assert by_report.record is not None
    assert by_report.record.criterion == "reconstruction"
    first, second = (PrunedUnits(plan.record, plan.narrowing) for plan in (by_recipe, by_report))
    assert kept_names(first) == kept_names(second)
    facts = {"unet": {**schema.to_json(by_recipe.record), "criterion": "taste"}}
    path.write_text(json.dumps(facts))
    message = "report.json was pruned by 'taste', which is none of magnitude, activation, reconstruction"
    with pytest.raises(BadConfig, match=message):
        plan_recovery(teacher, str(path), RULES, choose)


def test_a_choice_is_read_as_it_was_saved(tmp_path: Path, checkpoint: Path) -> None:
    teacher = open_networks(checkpoint, "cpu")
    plan = plan_recovery(teacher, str(recipe_of(tmp_path, "magnitude")), RULES)
    units = PrunedUnits(plan.record, plan.narrowing)
    units.save(tmp_path / "pruned.json")
    read = PrunedUnits.read(tmp_path / "pruned.json")
    assert read.record == units.record
    assert kept_names(read) == kept_names(units)
    assert all(axis.dtype == np.int64 for axes in read.narrowing.kept.values() for axis in axes)
    PrunedUnits().save(tmp_path / "nothing.json")
    assert PrunedUnits.read(tmp_path / "nothing.json").record is None
