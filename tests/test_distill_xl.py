"""Distillation of small random checkpoints of Stable Diffusion XL, as of Stable Diffusion."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graph_rewrites
from msd.bundle import ImageDefaults, open_bundle
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import convert
from msd.conversion.settings import Settings
from msd.conversion.sources.diffusers import open_folder, read_json
from msd.graph.parity import psnr
from msd.models.families.calls import sinusoids
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.pipeline import Pipeline
from msd.train.distill.conditioning import sinusoids_of
from msd.train.distill.distill import distill
from msd.train.distill.networks import Networks, open_networks
from msd.train.distill.objectives import encoded, guidance_loss
from msd.train.distill.passes import Points, output_of
from msd.train.distill.settings import DistillationSettings, Goal, ScaleRange, TeacherData, Training
from msd.train.distill.source import plan_source
from msd.train.distill.student import new_student
from msd.train.distill.training import StageRun, TrainingProgress, train
from msd.train.pytorch.backend import torch_backend
from msd.train.pytorch.bundle import checkpoint_bundle
from msd.train.pytorch.modules import network_call
from tests import xl_checkpoints
from tests.late import diffusers
from tests.test_distill import observer, weights

RULES = graph_rewrites.load()
UNET: dict[str, Any] = {
    "block_out_channels": [16, 32],
    "attention_head_dim": [1, 2],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
    "transformer_layers_per_block": [1, 2],
    "layers_per_block": 1,
    "sample_size": [8, 12],
}
UNEVEN = {
    **UNET,
    "transformer_layers_per_block": [1, [2]],
    "reverse_transformer_layers_per_block": [[1, 2], 1],
    "mid_block_type": "UNetMidBlock2D",
}
"""As SSD-1B's."""

SCALE = ScaleRange(5, 5)
PRUNED = """
[[line]]
store = "int4"

[prune]
budget = "20%"
criterion = "activation"
"""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, diffusers.StableDiffusionXLPipeline]:
    """Whose configuration names float16, as those of public checkpoints do."""
    folder = tmp_path_factory.mktemp("xl") / "checkpoint"
    pipeline = xl_checkpoints.write(folder, unet=UNET)
    change(folder / "text_encoder_2/config.json", dtype="float16")
    return folder, pipeline


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A U-Net as SSD-1B's, which predicts v to a last timestep of noise alone."""
    folder = tmp_path_factory.mktemp("xl") / "uneven"
    xl_checkpoints.write(folder, unet=UNEVEN)
    velocity = {"prediction_type": "v_prediction", "rescale_betas_zero_snr": True}
    change(folder / "scheduler/scheduler_config.json", **velocity)
    return folder


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> DistillationSettings:
    """With one state, of which tests reuse what is equal."""
    folder = tmp_path_factory.mktemp("state")
    (folder / "prompts.txt").write_text("red\nnearly red\nreed\n", "utf-8")
    return DistillationSettings(
        data=TeacherData(folder / "prompts.txt", 2, seed=3),
        goal=Goal(SCALE),
        state=folder,
        training=Training(updates=2, batch=2, rate=1e-3, warmup=1),
        rules=RULES,
        save_every=1,
    )


class Recorded:
    """The calls of a pipeline's U-Net, and what it said."""

    def __init__(self, unet: diffusers.UNet2DConditionModel) -> None:
        self.latents: list[Any] = []
        self.timesteps: list[Any] = []
        self.said: list[Any] = []
        self._hook = unet.register_forward_hook(self._keep, with_kwargs=True)

    def _keep(self, unet: Any, given: Any, named: Any, said: Any) -> None:
        self.latents.append(given[0])
        self.timesteps.append(given[1])
        self.said.append(said[0])

    def remove(self) -> None:
        self._hook.remove()


def test_the_teacher_says_in_both_passes_what_it_does_in_diffusers_pipeline(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline],
) -> None:
    """With the joined states of both encoders, the pooled vector, the sizes, and zeros without a prompt."""
    networks, recorded = open_networks(theirs[0], "cpu"), Recorded(theirs[1].unet)
    theirs[1](
        "a red dog!", height=16, width=24, num_inference_steps=2, guidance_scale=5, output_type="latent"
    )
    recorded.remove()
    ids = networks.token_ids(["", "a red dog!"])
    assert ids.shape == (2, 2 * 77)
    conditions = networks.conditions(ids)
    assert conditions["time_ids"].tolist() == [[16, 24, 0, 0, 16, 24]] * 2
    assert conditions["context"].shape == (2, 77, 80)
    assert not conditions["context"][0].any()
    for latents, at, wanted in zip(recorded.latents, recorded.timesteps, recorded.said, strict=True):
        points = Points(latents=latents, timesteps=at.repeat(2), ids=ids, scales=torch.ones(2))
        with torch.no_grad():
            said = output_of(networks.unet, points, conditions)
        assert psnr(wanted.numpy(), said.numpy()) >= 90
    assert (recorded.said[0][0] - recorded.said[0][1]).abs().max() > 1e-2


def test_a_pipeline_in_pytorch_is_diffusers_own(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline],
) -> None:
    """As `msd compare` runs a checkpoint."""
    checkpoint, bundle = checkpoint_bundle(theirs[0])
    start = np.random.default_rng(1).standard_normal((1, 8, 12, 4), np.float32)
    ours = Pipeline(bundle, torch_backend(checkpoint, bundle, "cpu"), execution="resident").generate(
        "a red dog!", steps=3, guidance=4.0, latents=start
    )
    wanted = theirs[1](
        "a red dog!",
        latents=torch.from_numpy(start.transpose(0, 3, 1, 2)),
        height=16,
        width=24,
        num_inference_steps=3,
        guidance_scale=4.0,
        output_type="latent",
    ).images
    assert psnr(wanted.numpy().transpose(0, 2, 3, 1), ours.latents) >= 90


def test_opening_an_encoder_leaves_pytorchs_default_precision(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may be making the U-Net, which would have that precision."""
    checkpoint, _ = checkpoint_bundle(theirs[0])
    config = read_json(theirs[0], "text_encoder_2/config.json")
    assert config["dtype"] == "float16"
    changes: list[torch.dtype] = []
    monkeypatch.setattr(torch, "set_default_dtype", changes.append)
    network_call(checkpoint, "text_encoder_2", config, "cpu")
    assert set(changes) <= {torch.float32}


def test_training_lowers_the_loss_at_points_that_it_is_judged_at(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], settings: DistillationSettings, tmp_path: Path
) -> None:
    from accelerate import Accelerator

    networks = open_networks(theirs[0], "cpu")
    wide = replace(settings, goal=Goal(ScaleRange(30, 30)))
    source = plan_source(networks, wide).make(Accelerator(), lambda done, total: None)
    loss = guidance_loss(networks, source, networks.prediction)
    student = new_student(networks.unet, takes_scale=False, training=wide.training)

    def judged() -> float:
        with torch.no_grad():
            return float(loss(student, torch.Generator().manual_seed(9), 16))

    before = judged()
    run = StageRun("stage", tmp_path / "stage", Training(20, 4, 1e-3, 2), 0, save_every=1000, sample_every=0)
    train(run, student, loss, Accelerator(), lambda progress: None, lambda unet, update: None)
    assert judged() < 0.8 * before


def test_fewer_steps_convert_and_generate_as_the_student_does(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], settings: DistillationSettings, tmp_path: Path
) -> None:
    """The schedule, the steps and one pass are in the manifest; diffusers opens the folder."""
    few = replace(settings, goal=Goal(SCALE, 16))
    result = distill(theirs[0], tmp_path / "student", few, observer())
    assert result.images == ImageDefaults(16, 1.0)
    assert (
        'StableDiffusionXLPipeline.from_pretrained("student")' in (tmp_path / "student/README.md").read_text()
    )
    pipe = diffusers.StableDiffusionXLPipeline.from_pretrained(tmp_path / "student")
    assert pipe.scheduler.config.timestep_spacing == "trailing"
    before, after = weights(theirs[0]), weights(tmp_path / "student")
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    convert(tmp_path / "student", tmp_path / "converted", Settings(RULES, find_recipe("float32")))
    converted = open_bundle(tmp_path / "converted")
    assert converted.manifest.images == ImageDefaults(16, 1.0)
    assert converted.manifest.scheduler["_class_name"] == "DDIMScheduler"
    checkpoint, bundle = checkpoint_bundle(tmp_path / "student")
    wanted = Pipeline(bundle, torch_backend(checkpoint, bundle, "cpu")).generate("a red dog!", steps=4)
    made = Pipeline(converted).generate("a red dog!", steps=4)
    assert psnr(wanted.latents, made.latents) >= 60


def decibels(student: Path, converted: Path) -> float:
    """Return how close a student's U-Net in PyTorch is to its file, on random inputs."""
    random, bundle = np.random.default_rng(1), open_bundle(converted)
    specs = {spec.name: spec.shape for spec in bundle.component("unet").inputs}
    given = {name: random.standard_normal(shape).astype(np.float32) for name, shape in specs.items()}
    numbers = {"timestep": torch.tensor([[371.0]]), "time_ids": torch.tensor([[16.0, 24, 0, 4, 16, 20]])}
    for name, values in numbers.items():
        width = specs[f"{name}_embedding"][-1]
        given[f"{name}_embedding"] = sinusoids_of(values, sinusoids(""), width).numpy()
    with Interpreter(bundle.path("unet"), float_weights=True) as network:
        found = network.run(given)["noise"]
    call = network_call(open_folder(student), "unet", read_json(student, "unet/config.json"), "cpu")
    with torch.no_grad():
        taken = {name: torch.from_numpy(values) for name, values in given.items()} | numbers
        wanted = call({**taken, "timestep": numbers["timestep"][0]})["noise"].numpy()
    return float(psnr(wanted, found))


def test_a_latent_consistency_model_of_unequal_blocks_takes_the_scale(
    uneven: Path, settings: DistillationSettings, tmp_path: Path
) -> None:
    """It goes on predicting v, and converts with the schedule of such models."""
    asked = replace(settings, goal=Goal(ScaleRange(2, 14), lcm=True), sample_every=2)
    result = distill(uneven, tmp_path / "student", asked, observer())
    assert result.images == ImageDefaults(4, 7.5)
    assert [*asked.state.glob("lcm-*/samples-000002.png")]
    student = open_folder(tmp_path / "student")
    assert student.configs["unet"].guidance_width == 256
    assert student.configs["unet"].down == open_folder(uneven).configs["unet"].down
    facts = {key: student.scheduler[key] for key in ("_class_name", "prediction_type")}
    assert facts == {"_class_name": "LCMScheduler", "prediction_type": "v_prediction"}
    convert(tmp_path / "student", tmp_path / "out", Settings(RULES, find_recipe("float32"), ("unet",)))
    assert open_bundle(tmp_path / "out").manifest.images == ImageDefaults(4, 7.5)
    assert decibels(tmp_path / "student", tmp_path / "out") >= 60


def test_a_recovered_network_of_unequal_blocks_converts_to_what_it_is_in_pytorch(
    uneven: Path, settings: DistillationSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units are chosen by what the whole network's file reads at points; what stays is trained in int4."""
    for module in ("distill", "refit", "units"):
        monkeypatch.setattr(f"msd.train.distill.{module}.RUNS", 2)
    recipe = tmp_path / "pruned.toml"
    recipe.write_text(PRUNED)
    asked = replace(settings, goal=Goal(recover=str(recipe)))
    distill(uneven, tmp_path / "student", asked, observer())
    assert open_folder(tmp_path / "student").pruned["unet"].criterion == "activation"
    convert(tmp_path / "student", tmp_path / "out", Settings(RULES, find_recipe(str(recipe)), ("unet",)))
    assert decibels(tmp_path / "student", tmp_path / "out") >= 60


def test_an_interrupted_run_goes_on_and_ends_as_if_it_had_not_been(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], settings: DistillationSettings, tmp_path: Path
) -> None:
    distill(theirs[0], tmp_path / "whole", settings, observer())
    stopped = replace(settings, state=tmp_path / "other")
    for made in settings.state.glob("trajectories-*"):
        shutil.copytree(made, stopped.state / made.name)

    def interrupt(progress: TrainingProgress) -> None:
        if progress.update == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill(theirs[0], tmp_path / "again", stopped, replace(observer(), on_progress=interrupt))
    assert [path.name for path in stopped.state.glob("guidance-*/update-*")] == ["update-00000001"]
    distill(theirs[0], tmp_path / "again", stopped, observer())
    whole, again = (weights(tmp_path / name) for name in ("whole", "again"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_diffusers_loads_a_lora(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], settings: DistillationSettings, tmp_path: Path
) -> None:
    training = replace(settings.training, lora=2, rate=1e-2, warmup=0)
    result = distill(
        theirs[0],
        tmp_path / "lora",
        replace(settings, goal=Goal(SCALE, lcm=True), training=training),
        observer(),
    )
    pipe = diffusers.StableDiffusionXLPipeline.from_pretrained(theirs[0])
    pipe.load_lora_weights(tmp_path / "lora")
    networks = open_networks(theirs[0], "cpu")
    points = noisy(networks)
    with torch.no_grad():
        before, after, loaded = (
            output_of(unet, points, points.conditions) for unet in (networks.unet, result.unet, pipe.unet)
        )
    assert torch.allclose(loaded, after, atol=1e-4)
    assert (after - before).abs().max() > 1e-3


def noisy(networks: Networks) -> Points:
    random = torch.Generator().manual_seed(1)
    return encoded(
        networks,
        Points(
            latents=torch.randn(2, *networks.latent_shape, generator=random),
            timesteps=torch.tensor([999, 40]),
            ids=networks.token_ids(["red", ""]),
            scales=torch.ones(2),
        ),
    )
