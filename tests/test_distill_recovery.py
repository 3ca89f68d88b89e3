"""Pruned and rounded networks that learn from the whole one: what they are, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import graph_rewrites
from msd.bundle import ImageDefaults, open_bundle
from msd.cli import msd
from msd.compress.calibration.generated_inputs import Calibration
from msd.compress.encoding.recipe import find_recipe
from msd.compress.pruning.budget import choices
from msd.compress.pruning.prune import prune
from msd.compress.pruning.settings import Pruning, UnitShare
from msd.compress.pruning.units import find_units
from msd.conversion.convert import Settings, convert
from msd.conversion.sources.diffusers import open_folder, read_json
from msd.conversion.trace import traced_model
from msd.errors import BadCheckpoint, BadConfig, MsdError
from msd.graph.parity import psnr
from msd.run.runners.interpreter import Interpreter
from msd.train.distill.blocks import block_outputs, points_of, recovery_loss
from msd.train.distill.distill import distill
from msd.train.distill.fake_quantization import quantize_layers
from msd.train.distill.networks import open_networks
from msd.train.distill.passes import Points
from msd.train.distill.recovery import plan_recovery
from msd.train.distill.settings import DistillationSettings, Goal, ScaleRange, TeacherData, Training
from msd.train.distill.student import Student, new_student
from msd.train.distill.swings import Swings
from msd.train.distill.training import StageRun, TrainingProgress, train
from msd.train.pytorch.modules import kind_of, network_call
from msd.train.pytorch.narrowing import job_of, narrowing_of
from tests.checkpoints import SHALLOW, TINY, vary, write
from tests.test_distill import observer, weights
from tests.test_distill_recovery_loss import Numbered

SMALL = vary(TINY, unet={"sample_size": [4, 6]})
ODD = vary(SHALLOW, unet={"time_cond_proj_dim": None, "sample_size": [6, 4]})
RULES = graph_rewrites.load()
CLOSE = 80
"""Decibels between two ways of computing one network in float32."""

RECIPE = """
[[line]]
store = "int8"

[[prune.unit]]
name = "up_blocks.0.resnets.0.conv1"
keep = 0.5

[[prune.unit]]
name = "up_blocks.1.attentions.0.transformer_blocks.0.ff.*"
keep = 0.25

[[prune.unit]]
name = "down_blocks.1.resnets.0.conv1"
keep = 0.333333
"""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    write(tmp_path / "teacher", SMALL)
    return tmp_path / "teacher"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "pruned.toml"
    path.write_text(RECIPE, "utf-8")
    return path


@pytest.fixture
def settings(tmp_path: Path, recipe: Path) -> DistillationSettings:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("red\nreed\n", "utf-8")
    return DistillationSettings(
        data=TeacherData(prompts, 2, seed=3),
        goal=Goal(recover=str(recipe)),
        state=tmp_path / "state",
        training=Training(updates=3, batch=2, rate=1e-3, warmup=1),
        rules=RULES,
    )


def inputs_of(bundle: Any) -> dict[str, Any]:
    specs = bundle.component("unet").inputs
    random = np.random.default_rng(1)
    return {spec.name: random.standard_normal(spec.shape).astype(np.float32) for spec in specs}


def decibels(converted: Path, call: Callable[[Any], Any], embed: Any) -> float:
    """Return how close a PyTorch network of a checkpoint is to its converted file, on random inputs."""
    bundle, timestep = open_bundle(converted), torch.tensor([371.0])
    inputs = {**inputs_of(bundle), "timestep_embedding": embed(timestep).numpy()}
    with Interpreter(bundle.path("unet"), float_weights=True) as network:
        found = network.run(inputs)["noise"]
    with torch.no_grad():
        given = {**{k: torch.from_numpy(v) for k, v in inputs.items()}, "timestep": timestep}
        wanted = call(given)["noise"].numpy()
    return float(psnr(wanted, found))


def every_unit_cut(folder: Path) -> Pruning:
    """Return a pruning of all units of a checkpoint, each by another share; some lose whole groups."""
    checkpoint = open_folder(folder)
    graph = traced_model(job_of(checkpoint, Settings(()), "unet"), "unet").main
    graph.remove_dead()
    units = find_units(graph).units
    cuts = [[choice for choice in choices(unit) if choice.share < 1] for unit in units]
    assert {unit.kind for unit in units} == {"channels", "hidden", "heads"}
    chosen = [each[7 * i % len(each)] for i, each in enumerate(cuts)]
    shares = [UnitShare(unit.name, choice.share) for unit, choice in zip(units, chosen, strict=True)]
    return Pruning(shares=tuple(shares), components=("unet",))


@pytest.mark.parametrize("config", [SMALL, ODD], ids=["one head", "four heads, a narrow end"])
def test_a_narrow_network_computes_what_the_pruned_conversion_does(tmp_path: Path, config: Any) -> None:
    write(tmp_path / "teacher", config)
    pruning, checkpoint = every_unit_cut(tmp_path / "teacher"), open_folder(tmp_path / "teacher")
    settings = Settings(RULES, find_recipe("float32"), ("unet",), pruning=pruning)
    manifest = convert(tmp_path / "teacher", tmp_path / "converted", settings)
    done = manifest.ledger["unet"].pruning
    assert done is not None
    assert {unit.whole_groups for unit in done.units if unit.groups > 1} == {True, False}
    narrowing = narrowing_of(checkpoint, "unet", lambda g: cut_units(g, pruning))
    network = open_networks(tmp_path / "teacher", "cpu").unet
    before = sum(weight.numel() for weight in network.parameters())
    narrowing.narrow(network.requires_grad_(False).eval())
    assert sum(weight.numel() for weight in network.parameters()) < 0.6 * before
    call = partial(kind_of(checkpoint.configs["unet"]).call, network)
    assert decibels(tmp_path / "converted", call, network.time_proj) > CLOSE


def cut_units(graph: Any, pruning: Pruning) -> None:
    prune({"unet": graph}, pruning, lambda name, tensor: 1.0)


def test_the_result_converts_to_the_same_sizes_with_the_same_recipe_and_is_the_network_in_pytorch(
    tmp_path: Path, checkpoint: Path, recipe: Path, settings: DistillationSettings
) -> None:
    distill(checkpoint, tmp_path / "student", settings, observer())
    student = open_folder(tmp_path / "student")
    assert student.images == ImageDefaults()
    shapes = {name: tensor.shape for name, tensor in student.weights["unet"].items()}
    assert shapes == {n: t.shape for n, t in open_folder(checkpoint).weights["unet"].items()}
    made = {}
    for name, folder in (("before", checkpoint), ("after", tmp_path / "student")):
        asked = Settings(RULES, find_recipe(str(recipe)), ("unet",))
        made[name] = convert(folder, tmp_path / name, asked)
    before, after = (made[name].components["unet"] for name in ("before", "after"))
    assert before.bytes == after.bytes
    assert before.sha256 != after.sha256
    pruned = [made[name].ledger["unet"].pruning for name in made]
    assert [(u.unit, u.kept) for u in pruned[0].units] == [(u.unit, u.kept) for u in pruned[1].units]
    assert len(pruned[0].units) == 3
    convert(tmp_path / "student", tmp_path / "float", Settings(RULES, find_recipe("float32"), ("unet",)))
    call = network_call(student, "unet", read_json(tmp_path / "student", "unet/config.json"), "cpu")
    embed = open_networks(checkpoint, "cpu").unet.time_proj
    assert decibels(tmp_path / "float", call, embed) > CLOSE


def test_the_file_of_a_network_trained_in_int4_is_that_network(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings
) -> None:
    """With a calibration and without: the encoder finds the scales of training, nothing is rounded again."""
    student = tmp_path / "student"
    longer = replace(settings, goal=Goal(recover="gpu-w4"), training=replace(settings.training, updates=22))
    distill(checkpoint, student, longer, observer())
    asked = Settings(RULES, find_recipe("gpu-w4"), ("unet",))
    convert(checkpoint, tmp_path / "nearest", asked)
    convert(student, tmp_path / "plain", asked)
    (tmp_path / "inputs" / "unet").mkdir(parents=True)
    np.savez(tmp_path / "inputs" / "unet" / "0.npz", **inputs_of(open_bundle(tmp_path / "nearest")))
    convert(student, tmp_path / "calibrated", replace(asked, calibration=Calibration(tmp_path / "inputs")))
    call = network_call(open_folder(student), "unet", read_json(student, "unet/config.json"), "cpu")
    embed = open_networks(checkpoint, "cpu").unet.time_proj
    close = {name: decibels(tmp_path / name, call, embed) for name in ("plain", "calibrated", "nearest")}
    assert min(close["plain"], close["calibrated"]) > 60, close
    assert close["nearest"] < 40, close


@pytest.mark.parametrize("stored", ["pruned int8", "gpu-w4"])
def test_an_interrupted_recovery_goes_on_and_ends_as_if_it_had_not_been(
    stored: str, tmp_path: Path, checkpoint: Path, recipe: Path, settings: DistillationSettings
) -> None:
    """int4 with the scales that it began with."""
    goal = Goal(recover=stored if stored == "gpu-w4" else str(recipe))
    longer = replace(settings, goal=goal, training=replace(settings.training, updates=22), save_every=19)
    distill(checkpoint, tmp_path / "whole", longer, observer())
    stopped = replace(longer, state=tmp_path / "other")

    def interrupt(progress: TrainingProgress) -> None:
        if progress.update == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill(checkpoint, tmp_path / "again", stopped, replace(observer(), on_progress=interrupt))
    assert [path.name for path in stopped.state.glob("recover-*/update-*")] == ["update-00000019"]
    distill(checkpoint, tmp_path / "again", stopped, observer())
    whole, again = (weights(tmp_path / name) for name in ("whole", "again"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_what_is_pruned_is_not_pruned_again(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings
) -> None:
    distill(checkpoint, tmp_path / "student", settings, observer())
    with pytest.raises(BadCheckpoint, match="was pruned and trained so; distil the whole checkpoint"):
        open_networks(tmp_path / "student", "cpu")
    asked = Settings(RULES, components=("unet",), pruning=Pruning(shares=(UnitShare("*.conv1", 0.5),)))
    with pytest.raises(BadConfig, match="the unet of student has been pruned and trained so"):
        convert(tmp_path / "student", tmp_path / "out", asked)
    path = tmp_path / "student" / "unet" / "diffusion_pytorch_model.safetensors"
    write(tmp_path / "other", SMALL, seed=5)
    path.write_bytes((tmp_path / "other" / "unet" / path.name).read_bytes())
    with pytest.raises(BadCheckpoint, match="but they are not zeros: the weights were changed afterwards"):
        convert(tmp_path / "student", tmp_path / "out", replace(asked, pruning=None))


def test_a_student_learns_to_say_what_the_whole_network_says(checkpoint: Path, recipe: Path) -> None:
    from accelerate import Accelerator

    teacher = open_networks(checkpoint, "cpu")
    plan = plan_recovery(teacher, str(recipe), RULES)
    assert plan.summary.startswith("0.0")
    assert "weights rounded to int8" in plan.summary

    loss = recovery_loss(teacher, Student(teacher.unet, "epsilon"), Numbered(teacher), 8, 7.5)
    whole = new_student(teacher.unet, False, Training())
    with torch.no_grad():
        assert float(loss(whole, torch.Generator().manual_seed(9), 4)) < 1e-8
    student = plan.narrowing.narrow(whole)
    quantize_layers(student, plan.integers)

    def judged() -> float:
        with torch.no_grad():
            return float(loss(student, torch.Generator().manual_seed(9), 64))

    before = judged()
    training = Training(updates=40, batch=8, rate=1e-3, warmup=5)
    run = StageRun("recover", checkpoint / "stage", training, seed=0, save_every=1000, sample_every=0)
    train(run, student, loss, Accelerator(), lambda progress: None, lambda unet, update: None)
    assert judged() < 0.75 * before


@pytest.mark.parametrize(("given", "has_int4"), [("gpu-w4", True), ("gpu-w8", False)])
def test_memory_of_what_int4_keeps_beside_its_weights(checkpoint: Path, given: str, has_int4: bool) -> None:
    teacher = open_networks(checkpoint, "cpu")
    plan = plan_recovery(teacher, given, RULES)
    unet = new_student(teacher.unet, False, Training())
    quantize_layers(unet, plan.integers, updates=10)
    swings = [module for module in unet.modules() if isinstance(module, Swings)]
    taken = sum(kept.nbytes for each in swings for kept in each.buffers() if kept.dim())
    assert plan.has_int4 == bool(swings) == has_int4
    assert plan.swings_bytes(teacher.unet) == taken


def test_blocks_are_those_of_the_unet(checkpoint: Path) -> None:
    unet = open_networks(checkpoint, "cpu").unet
    with torch.no_grad(), block_outputs(unet) as outputs:
        unet(torch.randn(1, 4, 4, 6), 3, torch.randn(1, 5, 48))
    assert list(outputs) == ["down_blocks.0", "down_blocks.1", "mid_block", "up_blocks.0", "up_blocks.1"]
    assert outputs["down_blocks.0"].shape[1:] == (16, 2, 3)
    assert outputs["up_blocks.1"].shape[1:] == (16, 4, 6)
    outputs.clear()
    with torch.no_grad():
        unet(torch.randn(1, 4, 4, 6), 3, torch.randn(1, 5, 48))
    assert not outputs


class _Numbered:
    """A source of points whose prompts are numbered; the last is the empty one."""

    ids, timesteps = torch.arange(8).reshape(4, 2), [999, -1]

    def anywhere(self, random: Any, size: int, among: Any = None) -> Points:
        nothing, ids = torch.zeros(size), self.ids[:1].expand(size, 2)
        return Points(latents=nothing, timesteps=nothing, ids=ids, scales=torch.ones(size))

    def on_grid(self, random: Any, size: int, steps: int) -> tuple[Points, Any]:
        return replace(self.anywhere(random, size), timesteps=torch.full((size,), steps)), None


def test_half_of_the_points_have_no_prompt_where_images_take_both_passes() -> None:
    drawn = points_of(_Numbered(), 8, both_passes=True)(torch.Generator().manual_seed(1), 400)
    assert 150 < int((drawn.ids[:, 0] == 6).sum()) < 250
    assert set(drawn.ids[:, 0].tolist()) == {0, 6}
    assert set(drawn.timesteps.tolist()) == {8}
    drawn = points_of(_Numbered(), None, both_passes=False)(torch.Generator().manual_seed(1), 9)
    assert set(drawn.ids[:, 0].tolist()) == {0}
    assert set(drawn.timesteps.tolist()) == {0}


def test_a_recovery_meets_what_its_teachers_images_meet() -> None:
    alone = Goal(recover="gpu-w8")
    assert (alone.teacher_steps, alone.grid_steps, alone.both_passes) == (32, None, True)
    assert alone.trajectory_guidance == ScaleRange(7.5, 7.5)
    few = replace(alone, usual=ImageDefaults(6, 1.0))
    assert (few.teacher_steps, few.grid_steps, few.both_passes) == (6, 6, False)
    assert few.trajectory_guidance == ScaleRange(1, 1)
    both = replace(alone, steps=8)
    assert (both.teacher_steps, both.grid_steps, both.both_passes) == (32, 8, True)
    assert both.trajectory_guidance is None
    guided = replace(alone, steps=4, guidance=ScaleRange(3, 3), lcm=True)
    assert (guided.teacher_steps, guided.grid_steps, guided.both_passes) == (32, None, False)


def report(folder: Path, out: Path, recipe: Path) -> Path:
    options = ("-o", out / "reported", "--recipe", recipe, "--prune-report", out / "report.json")
    result = CliRunner().invoke(msd, ["convert", *map(str, (folder, *options)), "--component", "unet"])
    assert result.exit_code == 0, result.output
    return out / "report.json"


def test_a_report_prunes_as_its_recipe_and_rounds_nothing(
    tmp_path: Path, checkpoint: Path, recipe: Path
) -> None:
    teacher = open_networks(checkpoint, "cpu")
    path = report(checkpoint, tmp_path, recipe)
    by_report, by_recipe = (plan_recovery(teacher, str(each), RULES) for each in (path, recipe))
    assert by_report.integers == {} != by_recipe.integers
    assert by_report.narrowing.kept.keys() == by_recipe.narrowing.kept.keys()
    for name, kept in by_recipe.narrowing.kept.items():
        assert all(map(np.array_equal, kept, by_report.narrowing.kept[name])), name
    write(tmp_path / "wide", vary(SMALL, unet={"block_out_channels": [16, 32]}))
    facts = json.loads(path.read_text())
    facts["unet"]["units"] = facts["unet"]["units"][1:]
    (tmp_path / "other.json").write_text(json.dumps(facts))
    for given in (tmp_path / "other.json", path):
        with pytest.raises(BadConfig, match=f"{given.name} is the prune report of another model"):
            plan_recovery(open_networks(tmp_path / "wide", "cpu"), str(given), RULES)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("gpu-w9", None, "no recipe is called 'gpu-w9'"),
        ("float32", None, "float32 neither prunes the U-Net nor stores integers of it"),
        ("a.toml", '[prune]\ncomponents = ["text_encoder"]\nbudget = "5%"', "only a unet can be recovered"),
        ("a.toml", '[[prune.unit]]\nname = "nowhere"\nkeep = 0.5', "no unit is called nowhere"),
        ("a.json", None, "is no prune report of msd-convert"),
        ("a.json", "[1]", "is no prune report of msd-convert"),
        ("a.json", "{}", "says that nothing of a unet was pruned"),
    ],
)
def test_what_cannot_be_recovered_is_refused(
    tmp_path: Path, checkpoint: Path, name: str, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    given = str(tmp_path / name) if "." in name else name
    with pytest.raises(MsdError, match=message):
        plan_recovery(open_networks(checkpoint, "cpu"), given, RULES)


def test_a_lora_cannot_be_pruned(tmp_path: Path) -> None:
    options = ["--lcm", "--guidance", "3", "--lora", "4", "--recover", "gpu-w8", "-o", str(tmp_path / "new")]
    (tmp_path / "prompts.txt").write_text("red\n")
    arguments = ["distill", str(tmp_path), "--prompts", str(tmp_path / "prompts.txt"), *options]
    result = CliRunner().invoke(msd, arguments)
    assert result.exit_code == 2
    assert "which cannot hold a pruned network" in " ".join(result.stderr.split())
