"""Measure `msd distill`: students of the demo checkpoint beside their teacher, and full-size training.

    python -m scripts.lab.bench_distill students -o docs/results
    python -m scripts.lab.bench_distill recovered work/recovered -o docs/results
    python -m scripts.lab.bench_distill speed -o docs/results
    python -m scripts.lab.bench_distill killed -o docs/results
    python -m scripts.lab.bench_distill full-size -o docs/results
    accelerate launch --num_processes 2 -m scripts.lab.bench_distill full-size -o docs/results
    python -m scripts.lab.bench_distill choice -o docs/results

`students` trains students of one pass, of fewer steps, and one of which a quarter was pruned, and compares
their images of held-back captions with the teacher's: ten minutes on an H100. `recovered` runs the pruned
one's file on the CPU beside a refitted and a merely pruned one: 37 minutes on 2 cores. `speed` trains that
one with and without recorded updates. `killed` kills a distillation at random moments and compares what it
ends with. `full-size` trains Stable Diffusion 2.1's U-Net, with random weights, for a few updates of each
objective: updates a second, and the allocator's peak. `choice` chooses, on the CPU, what goes of that U-Net.
"""

from __future__ import annotations

import json
import platform
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import torch
from accelerate import PartialState

import graph_rewrites
from msd.models.demo import CHECKPOINT
from msd.models.demo.captions import captions
from msd.train.comparison.compare import compare
from msd.train.comparison.model import ComparedModel
from msd.train.comparison.result import Column
from msd.train.comparison.sheet import contact_sheet
from msd.train.distill.distill import Announcement, Observer, distill
from msd.train.distill.settings import (
    DistillationSettings,
    Goal,
    Precision,
    ScaleRange,
    TeacherData,
    Training,
)
from msd.train.distill.training import TrainingProgress
from scripts.figures import save_figures
from scripts.lab.full_size_training import OBJECTIVES, measure_full_size, write_checkpoint
from scripts.lab.fused_lora import fuse_lora
from scripts.lab.killed_distillation import kill_and_compare
from scripts.lab.measured import machine
from scripts.lab.recovered_demo import CALIBRATED_ON, MADE, compare_recovered, write_recipe
from scripts.lab.training_speed import measure_speed
from scripts.lab.unit_choice import measure_choice

GUIDANCE = ScaleRange(7.5, 7.5)
STUDY = "distillation.json"
RECOVERED = "recovered"
LORA = "lcm-lora"
STUDENTS = {
    "one-pass": Goal(GUIDANCE),
    "8-steps": Goal(GUIDANCE, 8),
    "4-steps": Goal(GUIDANCE, 4),
    "2-steps": Goal(GUIDANCE, 2),
    "scale-as-input": Goal(ScaleRange(2, 14)),
    "lcm": Goal(GUIDANCE, 4, lcm=True),
    LORA: Goal(GUIDANCE, 4, lcm=True),
    RECOVERED: Goal(recover=""),
}
LORA_RANK = 16
TRAINING = Training(updates=250, batch=256, rate=6e-4, warmup=25)
SMOKE = Training(updates=2, batch=2, rate=1e-4, warmup=1)

out_folder = click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
count_option = click.option("--captions", "count", default=240, help="Held-back captions to compare.")
precision_option = click.option(
    "--precision", type=click.Choice(["no", "bf16"]), default="no", show_default=True
)
recipe_option = click.option(
    "--recipe", help="What `recovered` is stored by, not int8 with a quarter pruned."
)
name_option = click.option("--name", default="demo", help="Of the run in distillation.json.")


def say(text: str) -> None:
    """Print a line now, with the time."""
    click.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)


def conditions() -> dict[str, Any]:
    """Return the machine and the versions behind the figures."""
    packages = "torch", "diffusers", "accelerate", "transformers"
    cuda = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if cuda else platform.machine(),
        "gpus": torch.cuda.device_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def train_student(
    name: str, checkpoint: Path, settings: DistillationSettings, folder: Path
) -> dict[str, Any]:
    """Distil a checkpoint to `folder`; return the seconds and the last loss of each stage trained."""
    stages: dict[str, Any] = {}

    def on_plan(announced: Announcement) -> None:
        say(f"{name}: {', '.join(announced.missing) or 'nothing'} to train")

    def on_progress(progress: TrainingProgress) -> None:
        if progress.update == progress.updates:
            stages[progress.stage] = {
                "seconds": progress.seconds,
                "loss": progress.loss,
                "updates_per_second": progress.updates_per_second,
                "peak_bytes": progress.peak_bytes,
            }
            say(f"{name}: {progress.stage} {stages[progress.stage]}")

    observer = Observer(on_plan, lambda done, total: None, on_progress)
    begun = time.monotonic()
    distill(checkpoint, folder, settings, observer)
    return {"seconds": time.monotonic() - begun, "stages": stages}


def row(column: Column) -> dict[str, Any]:
    """Return what the table says of a column of a comparison, without the place of its model."""
    return {name: value for name, value in asdict(column).items() if name not in ("images", "model")}


def settings_of(
    name: str, work: Path, trajectories: int, training: Training, precision: Precision, recipe: str | None
) -> DistillationSettings:
    """Return how a student is trained; all of a folder share their trajectories and stages."""
    prompts, goal = work / "prompts.txt", STUDENTS[name]
    prompts.write_text("\n".join(dict.fromkeys(captions("train", trajectories, 1))), "utf-8")
    if name == RECOVERED:
        goal = replace(goal, recover=recipe or write_recipe(work))
    if name == LORA:
        training = replace(training, lora=LORA_RANK)
    return DistillationSettings(
        data=TeacherData(prompts, trajectories),
        goal=goal,
        state=work / "state",
        training=training,
        precision=precision,
        rules=graph_rewrites.load(),
        save_every=500,
    )


def measure_student(
    name: str,
    checkpoint: Path,
    settings: DistillationSettings,
    work: Path,
    held_back: Sequence[str],
    out: Path,
) -> dict[str, Any]:
    """Train one student, and return how its images compare with its teacher's; their sheet is kept."""
    student = work / name
    trained = train_student(name, checkpoint, settings, student)
    if name == LORA:
        student = fuse_lora(checkpoint, student, work / f"{LORA}-fused")
    pair = ComparedModel(checkpoint), ComparedModel(student)
    batch = 256 if torch.cuda.is_available() else 4
    comparison = compare(*pair, held_back, batch=batch, perceptual=False)
    columns = [row(column) for column in comparison.result.columns]
    for column in columns:
        say(f"{name}: {json.dumps(column)}")
    contact_sheet(comparison).save(out / f"distill-{name}.png", optimize=True)
    return {**trained, "columns": columns}


def write(name: str, figures: dict[str, Any], out: Path) -> None:
    """Write the figures and what they depend on."""
    save_figures(out / STUDY / name, {**conditions(), **figures}, "msd/train")
    say(f"wrote {name} in {out / STUDY}")


@click.group(help=__doc__)
def main() -> None:
    """Measure msd distill."""


@main.command("students")
@out_folder
@name_option
@count_option
@click.option("--checkpoint", type=click.Path(path_type=Path), default=CHECKPOINT, help="Another teacher.")
@click.option("--only", type=click.Choice([*STUDENTS]), multiple=True, help="Not all students, but these.")
@click.option("--updates", default=TRAINING.updates, help="Of each stage, of which a tenth is warm-up.")
@click.option("--batch", default=TRAINING.batch)
@click.option("--rate", default=TRAINING.rate, show_default=True)
@click.option("--trajectories", default=2048)
@precision_option
@recipe_option
@click.option("--cuda-graph/--no-cuda-graph", default=True, help="Record updates, or not.")
@click.option("--work", type=click.Path(path_type=Path), help="A folder for students, which is kept.")
@click.option("--smoke", is_flag=True, help="A few updates and images, to try the code on a CPU.")
def students(
    output: Path,
    name: str,
    count: int,
    checkpoint: Path,
    only: Sequence[str],
    updates: int,
    batch: int,
    rate: float,
    trajectories: int,
    precision: Precision,
    recipe: str | None,
    cuda_graph: bool,
    work: Path | None,
    smoke: bool,
) -> None:
    """Train students of the demo checkpoint, or another of its scenes, and compare them with it."""
    training = replace(TRAINING, updates=updates, batch=batch, rate=rate, warmup=updates // 10)
    if smoke:
        count, trajectories, training = 2, 4, SMOKE
    held_back = [*captions("held-back", count, 0)]
    figures: dict[str, Any] = {
        "training": asdict(training),
        "precision": precision,
        "trajectories": trajectories,
        "captions": count,
        **({"recipe": recipe} if recipe else {}),
    }
    with ExitStack() as stack:
        folder = work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        for student in only or STUDENTS:
            settings = settings_of(student, folder, trajectories, training, precision, recipe)
            settings = replace(settings, cuda_graph=cuda_graph)
            figures[student] = measure_student(student, checkpoint, settings, folder, held_back, output)
            write(name, figures, output)


@main.command("recovered")
@click.argument("student", type=click.Path(path_type=Path, exists=True))
@out_folder
@name_option
@count_option
@click.option("--only", type=click.Choice(MADE), multiple=True, help="Not all files, but these.")
@recipe_option
def recovered(
    student: Path, output: Path, name: str, count: int, only: Sequence[str], recipe: str | None
) -> None:
    """Compare the files of a recovered STUDENT that `students` has trained: the run NAME-files."""
    prompts = [*dict.fromkeys(captions("train", CALIBRATED_ON, 1))]
    with tempfile.TemporaryDirectory() as work:
        held_back = [*captions("held-back", count, 0)]
        compared = compare_recovered(Path(work), student, prompts, held_back, only or MADE, recipe)
    say(json.dumps(compared))
    write(f"{name}-files", {"compared_on": machine(), **compared}, output)


@main.command("speed")
@out_folder
@click.option("--updates", default=80)
@precision_option
@click.option("--batch", default=TRAINING.batch)
@click.option("--smoke", is_flag=True, help="A few updates, to try the code on a CPU.")
def speed(output: Path, updates: int, precision: Precision, batch: int, smoke: bool) -> None:
    """Train a pruned network for a few updates, plain and recorded: speed, and whether weights are equal."""
    training = SMOKE if smoke else replace(TRAINING, updates=updates, batch=batch)
    with tempfile.TemporaryDirectory() as work:
        figures = measure_speed(Path(work), training, precision, 4 if smoke else 256, say)
    write(f"speed-{precision}", figures, output)


@main.command("killed")
@out_folder
@click.option("--kills", default=5)
@click.option("--smoke", is_flag=True, help="A few updates, to try the code on a CPU.")
def killed(output: Path, kills: int, smoke: bool) -> None:
    """Kill a distillation of the demo checkpoint at random moments, and compare what it ends with."""
    with tempfile.TemporaryDirectory() as work:
        write("killed", kill_and_compare(Path(work), kills, smoke, say), output)


@main.command("full-size")
@out_folder
@click.option("--updates", default=40)
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Keeps the random checkpoint.")
@click.option(
    "--only", multiple=True, type=click.Choice(OBJECTIVES), help="These objectives, in a run of theirs."
)
@click.option("--smoke", is_flag=True, help="The demo's U-Net in place of the large one, to try the code.")
def full_size(
    output: Path, updates: int, checkpoint: Path | None, only: tuple[str, ...], smoke: bool
) -> None:
    """Train Stable Diffusion 2.1's U-Net for a few updates of each objective."""
    processes = PartialState(cpu=not torch.cuda.is_available())
    with tempfile.TemporaryDirectory() as work:
        large = checkpoint or Path(work) / "checkpoint"
        with processes.main_process_first():
            if not smoke and not large.exists():
                write_checkpoint(large)
        figures = measure_full_size(None if smoke else large, Path(work), updates, only or OBJECTIVES, say)
    if processes.is_main_process:
        write("-".join(["full-size", str(processes.num_processes), *only]), figures, output)


@main.command("choice")
@out_folder
@click.option("--points", default=16)
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Keeps the random checkpoint.")
@click.option("--smoke", is_flag=True, help="The demo's U-Net in place of the large one, to try the code.")
def choice(output: Path, points: int, checkpoint: Path | None, smoke: bool) -> None:
    """Choose a quarter of Stable Diffusion 2.1's U-Net by reconstruction error, on few points."""
    with tempfile.TemporaryDirectory() as work:
        large = checkpoint or Path(work) / "checkpoint"
        if not smoke and not large.exists():
            write_checkpoint(large)
        write(f"choice-{points}", measure_choice(None if smoke else large, points), output)


if __name__ == "__main__":
    main()
