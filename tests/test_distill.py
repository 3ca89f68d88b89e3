"""Distillation of a small random checkpoint on the CPU, and of the demo's: real losses, real files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from msd.bundle import ImageDefaults
from msd.conversion.schedule import image_defaults
from msd.conversion.sources.diffusers import open_folder
from msd.errors import (
    BadCalibration,
    BadCheckpoint,
    BadConfig,
    NoMemory,
    NotFinite,
    OutputExists,
    OutputUnwritable,
)
from msd.models.families.stable_diffusion import STABLE_DIFFUSION
from msd.train.distill.distill import Announcement, Observer, distill
from msd.train.distill.networks import Networks, open_networks
from msd.train.distill.objectives import Loss, guidance_loss, halving_loss
from msd.train.distill.passes import Points, guided_output, output_of, scale_embedding
from msd.train.distill.result import DistilledCheckpoint, card, lora_card, require_free, write_result
from msd.train.distill.settings import DistillationSettings, Goal, ScaleRange, TeacherData, Training
from msd.train.distill.student import Student, new_student
from msd.train.distill.training import LOG, StageRun, TrainingProgress, train
from msd.train.distill.trajectories import Trajectories, TrajectoryPlan, make_trajectories
from tests.checkpoints import INPAINTING, SHALLOW, TINY, vary, write
from tests.late import diffusers
from tests.tiny_disk import tiny_disk

SMALL = vary(TINY, unet={"sample_size": [4, 6]})
TRAINING = Training(updates=4, batch=2, rate=1e-3, warmup=1)
IMAGES = ImageDefaults(20, 1.0)
Seen = list[TrainingProgress]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    write(tmp_path / "teacher", SMALL)
    return tmp_path / "teacher"


@pytest.fixture
def settings(tmp_path: Path) -> DistillationSettings:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("red\nnearly red\n# not a prompt\nreed\n", "utf-8")
    return DistillationSettings(
        data=TeacherData(prompts, 6, seed=3),
        goal=Goal(ScaleRange(3, 3), 10),
        state=tmp_path / "state",
        training=TRAINING,
        save_every=2,
    )


def observer(seen: Seen | None = None, on_plan: Callable[[Announcement], None] | None = None) -> Observer:
    found: Seen = [] if seen is None else seen
    return Observer(on_plan or (lambda announced: None), lambda done, total: None, found.append)


def made(networks: Networks, folder: Path, goal: Goal) -> Trajectories:
    plan = TrajectoryPlan.of(networks, ["red", "nearly red", "reed"], goal, TeacherData(folder, 6, seed=3))
    make_trajectories(networks, plan, folder / "made", (0, 1), lambda done, total: None)
    return Trajectories(plan, folder / "made", networks.levels, "cpu")


def weights(folder: Path) -> dict[str, Any]:
    return load_file(folder / "unet" / "diffusion_pytorch_model.safetensors")


def test_the_guided_output_is_that_of_diffusers_pipeline(checkpoint: Path) -> None:
    networks = open_networks(checkpoint, "cpu")
    conditions, empty = (
        networks.conditions(networks.token_ids(["red", "reed"])),
        networks.conditions(networks.token_ids([""])),
    )
    latents = torch.randn(2, *networks.latent_shape, generator=torch.Generator().manual_seed(1))
    scales = torch.tensor([3.0, 5.0])
    points = Points(
        latents=latents, timesteps=torch.tensor([999, 40]), ids=None, scales=scales, conditions=conditions
    )
    with torch.no_grad():
        clean, noise = guided_output(networks, points, empty)
        away = output_of(networks.unet, points, {"context": empty["context"].expand(2, -1, -1)})
        towards = output_of(networks.unet, points, conditions)
    wanted = away + points.scales.view(-1, 1, 1, 1) * (towards - away)
    said = networks.levels.output(networks.prediction, points.timesteps, latents, clean)
    assert torch.allclose(said, wanted, atol=1e-3)
    assert torch.allclose(networks.levels.at(points.timesteps, clean, noise), latents, atol=1e-3)
    assert (towards - away).abs().max() > 1e-3


def test_a_scale_is_embedded_as_diffusers_embeds_it() -> None:
    scales = torch.tensor([2.0, 7.5, 14.0])
    theirs = diffusers.StableDiffusionPipeline.get_guidance_scale_embedding(None, scales - 1, 256)
    assert torch.allclose(scale_embedding(scales, 256), theirs, atol=2e-3)


def test_a_student_begins_as_its_teacher_whether_it_takes_the_scale_or_not(checkpoint: Path) -> None:
    networks = open_networks(checkpoint, "cpu")
    points = Points(
        latents=torch.randn(2, *networks.latent_shape),
        timesteps=torch.tensor([3, 700]),
        ids=networks.token_ids(["red", "reed"]),
        scales=torch.tensor([3.0, 9.0]),
    )
    conditions = networks.conditions(points.ids)
    with torch.no_grad():
        teacher = output_of(networks.unet, points, conditions)
        for takes_scale in (False, True):
            student = new_student(networks.unet, takes_scale, TRAINING)
            assert torch.allclose(output_of(student, points, conditions), teacher, atol=1e-5)
            assert all(weight.requires_grad for weight in student.parameters())


@pytest.mark.parametrize(
    ("steps", "prediction", "most"),
    [(None, "epsilon", 0.6), (4, "epsilon", 0.5), (2, "v_prediction", 0.98)],
    ids=["guidance", "half as many steps", "v in place of noise"],
)
def test_training_lowers_the_loss_at_points_that_it_is_judged_at(
    tmp_path: Path, checkpoint: Path, steps: int | None, prediction: str, most: float
) -> None:
    from accelerate import Accelerator

    networks = open_networks(checkpoint, "cpu")
    trajectories = made(networks, tmp_path, Goal(ScaleRange(30, 30)))
    teacher = Student(networks.unet, networks.prediction)
    loss = (
        guidance_loss(networks, trajectories, prediction)
        if steps is None
        else halving_loss(networks, teacher, trajectories, steps, prediction)
    )
    student = new_student(networks.unet, takes_scale=False, training=TRAINING)

    def judged() -> float:
        with torch.no_grad():
            return float(loss(student, torch.Generator().manual_seed(9), 128))

    before = judged()
    training = Training(updates=60, batch=8, rate=5e-4, warmup=5)
    run = StageRun("stage", tmp_path / "stage", training, seed=0, save_every=1000, sample_every=0)
    train(run, student, loss, Accelerator(), lambda progress: None, lambda unet, update: None)
    assert judged() < most * before


def test_the_result_is_a_checkpoint(tmp_path: Path, checkpoint: Path, settings: DistillationSettings) -> None:
    longer = replace(settings, training=replace(TRAINING, updates=30), sample_every=30)
    distill(checkpoint, tmp_path / "student", longer, observer())
    student = open_folder(tmp_path / "student")
    assert student.images is not None
    assert (student.images.steps, student.images.guidance) == (10, 1.0)
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(tmp_path / "student", safety_checker=None)
    assert isinstance(pipe.scheduler, diffusers.DDIMScheduler)
    assert pipe.scheduler.config.timestep_spacing == "trailing"
    before, after = weights(checkpoint), weights(tmp_path / "student")
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert "num_inference_steps=10, guidance_scale=1" in (tmp_path / "student" / "README.md").read_text()
    sheets = {path.name for path in settings.state.glob("*/*.png")}
    assert sheets == {"samples-000030.png", "loss.png"}
    lines = (next(settings.state.glob("guidance-*")) / LOG).read_text().splitlines()
    assert [json.loads(line)["update"] for line in lines] == [1, 20, 30]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_result_has_the_precision_of_its_teachers_file(
    dtype: torch.dtype, tmp_path: Path, checkpoint: Path
) -> None:
    file = checkpoint / "unet/diffusion_pytorch_model.safetensors"
    save_file({name: tensor.to(dtype) for name, tensor in load_file(file).items()}, file)
    teacher = open_networks(checkpoint, "cpu")
    student = new_student(teacher.unet, takes_scale=False, training=TRAINING)
    scheduler = {"_class_name": "DDIMScheduler"}
    write_result(teacher, DistilledCheckpoint(student, scheduler, IMAGES, {}), tmp_path / "out")
    written = load_file(tmp_path / "out/unet/diffusion_pytorch_model.safetensors")
    assert {tensor.dtype for tensor in written.values()} == {dtype}
    assert all(torch.equal(tensor, load_file(file)[name]) for name, tensor in written.items())


def test_the_scale_stays_an_input_where_a_range_is_asked_for(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings
) -> None:
    ranged = replace(settings, goal=Goal(ScaleRange(2, 14)))
    result = distill(checkpoint, tmp_path / "student", ranged, observer())
    config = json.loads((tmp_path / "student" / "unet" / "config.json").read_text())
    assert config["time_cond_proj_dim"] == 256
    assert result.images.guidance == 7.5
    assert result.images.steps == image_defaults({}, False).steps
    assert open_folder(tmp_path / "student").configs["unet"].guidance_width == 256


def test_a_student_keeps_what_it_makes_of_the_scale(checkpoint: Path) -> None:
    first = new_student(open_networks(checkpoint, "cpu").unet, True, TRAINING)
    with torch.no_grad():
        first.time_embedding.cond_proj.weight.normal_()
    second = new_student(first, True, TRAINING)
    assert torch.equal(second.time_embedding.cond_proj.weight, first.time_embedding.cond_proj.weight)


def test_a_second_run_repeats_nothing_and_gives_the_same_weights(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings
) -> None:
    distill(checkpoint, tmp_path / "one", settings, observer())
    missing: list[tuple[str, ...]] = []
    seen: Seen = []
    watcher = observer(seen, lambda announced: missing.append(tuple(announced.missing)))
    distill(checkpoint, tmp_path / "two", settings, watcher)
    assert missing == [()]
    assert seen == []
    elsewhere = replace(settings, state=tmp_path / "other")
    distill(checkpoint, tmp_path / "three", elsewhere, observer())
    for other in ("two", "three"):
        assert (tmp_path / "one" / "unet" / "diffusion_pytorch_model.safetensors").read_bytes() == (
            tmp_path / other / "unet" / "diffusion_pytorch_model.safetensors"
        ).read_bytes()


def test_parts_of_an_update_give_about_the_update(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings
) -> None:
    parted = replace(settings, training=replace(TRAINING, accumulate=2, gradient_checkpointing=True))
    distill(checkpoint, tmp_path / "student", parted, observer())
    assert weights(tmp_path / "student").keys() == weights(checkpoint).keys()


def test_a_loss_that_is_not_finite_is_refused(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings
) -> None:
    wild = replace(settings, training=Training(updates=200, batch=2, rate=1.0, warmup=1))
    with pytest.raises(NotFinite, match=r"the loss of guidance is (nan|inf) .*smaller --rate"):
        distill(checkpoint, tmp_path / "student", wild, _diverging())
    assert not (tmp_path / "student").exists()


def _diverging() -> Observer:
    """Return an observer that breaks the teacher once its trajectories are there."""
    teachers: list[Any] = []

    def broken(done: int, total: int) -> None:
        if done == total:
            with torch.no_grad():
                teachers[0].unet.conv_out.bias.fill_(float("nan"))

    return Observer(lambda announced: teachers.append(announced.teacher), broken, lambda progress: None)


@pytest.mark.parametrize(
    ("size", "place"), [("4k", "trajectories"), ("96k", "update-00000002"), ("400k", "student.safetensors")]
)
def test_a_full_disk_is_an_error_that_names_the_file(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings, size: str, place: str
) -> None:
    every = 100 if place == "student.safetensors" else 2
    with tiny_disk(tmp_path / "disk", size) as state:
        small = replace(settings, state=state, save_every=every)
        with pytest.raises(OutputUnwritable, match=place):
            distill(checkpoint, tmp_path / "student", small, observer())
    assert not (tmp_path / "student").exists()


def test_a_result_on_a_full_disk_is_an_error(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings
) -> None:
    with tiny_disk(tmp_path / "disk", "96k") as disk:
        with pytest.raises(OutputUnwritable):
            distill(checkpoint, disk / "student", settings, observer())
        assert not (disk / "student").exists()
    distill(checkpoint, tmp_path / "student", settings, observer())


def test_training_that_does_not_fit_into_memory_is_refused(tmp_path: Path, checkpoint: Path) -> None:
    from accelerate import Accelerator

    def full(random: Any, size: int) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    loss = Loss(full, lambda student, points: None)
    student = new_student(open_networks(checkpoint, "cpu").unet, False, TRAINING)
    run = StageRun("guidance", tmp_path / "stage", TRAINING, seed=0, save_every=9, sample_every=0)
    with pytest.raises(NoMemory, match=r"guidance does not fit .* give a smaller --batch"):
        train(run, student, loss, Accelerator(), lambda progress: None, lambda unet, update: None)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (INPAINTING, "models that repaint or edit images cannot be distilled"),
        (SHALLOW, "it has been distilled already"),
    ],
    ids=["inpainting", "takes the scale"],
)
def test_other_kinds_of_checkpoints_are_refused(tmp_path: Path, config: Any, message: str) -> None:
    write(tmp_path, config)
    with pytest.raises(BadCheckpoint, match=message):
        open_networks(tmp_path, "cpu")


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path, demo_int8: Path) -> None:
    """With what it is: a converted one, or a part of a checkpoint."""
    with pytest.raises(BadCheckpoint, match=r"is converted already: .* give the checkpoint that"):
        open_networks(demo_int8, "cpu")
    with pytest.raises(BadCheckpoint, match=r"has no readable model_index\.json; it is empty"):
        open_networks(tmp_path, "cpu")


def test_a_batch_that_cannot_be_shared_is_refused(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings
) -> None:
    odd = replace(settings, training=replace(TRAINING, batch=3, accumulate=2))
    with pytest.raises(BadConfig, match="a batch of 3 cannot be shared by 1 processes in 2 parts"):
        distill(checkpoint, tmp_path / "student", odd, observer())


def test_a_file_without_prompts_is_refused(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings
) -> None:
    settings.data.prompts.write_text("# nothing\n")
    with pytest.raises(BadCalibration, match="has no prompt"):
        distill(checkpoint, tmp_path / "student", settings, observer())


@pytest.mark.parametrize("images", ['{"steps": "many"}', "[]"])
def test_a_damaged_distillation_json_is_refused(checkpoint: Path, images: str) -> None:
    (checkpoint / "distillation.json").write_text(f'{{"images": {images}}}')
    with pytest.raises(BadCheckpoint, match=r"distillation\.json is not valid"):
        open_folder(checkpoint)


def test_the_loss_of_a_perfect_student_is_zero(tmp_path: Path, checkpoint: Path) -> None:
    networks = open_networks(checkpoint, "cpu")
    loss = guidance_loss(networks, made(networks, tmp_path, Goal()), networks.prediction)
    with torch.no_grad():
        assert float(loss(networks.unet, torch.Generator().manual_seed(0), 3)) < 1e-6


@pytest.mark.parametrize(("steps", "said"), [(1, "1 step, guidance 2.5."), (4, "4 steps, guidance 2.5.")])
def test_a_card_counts_its_steps(steps: int, said: str) -> None:
    images = ImageDefaults(steps, 2.5)
    assert f"with `msd distill`: {said}" in card("x", images, STABLE_DIFFUSION)
    assert f"by `msd distill`: {said}" in lora_card("x", images)


def test_an_output_that_exists_is_refused(tmp_path: Path) -> None:
    require_free(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(OutputExists, match="give a new folder"):
        require_free(tmp_path)
    with pytest.raises(OutputExists):
        require_free(tmp_path / "file")
    require_free(tmp_path / "new")
