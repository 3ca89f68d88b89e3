"""Measure `msd distill`: students of the demo checkpoint beside their teacher, and full-size training.

    python -m scripts.bench_distill demo -o docs/results
    python -m scripts.bench_distill full-size -o docs/results
    accelerate launch --num_processes 2 -m scripts.bench_distill full-size -o docs/results

`demo` trains students of one pass at 20, 8 and 4 steps and compares their images of held-back captions with
the teacher's. Then it recovers a network of which a quarter was pruned: seven minutes on an H100 until there.
Last it runs that student's file, a refitted one and a merely pruned one on the CPU, 37 minutes on 2 cores;
`recovered` does that for a student from elsewhere. `full-size` trains Stable Diffusion 2.1's U-Net, with
random weights, for a few updates of each objective: updates a second, and the allocator's peak.
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
from accelerate import Accelerator

from msd.comparison.compare import compare
from msd.comparison.model import ComparedModel
from msd.comparison.result import Column
from msd.comparison.sheet import contact_sheet
from msd.demo import CHECKPOINT
from msd.demo.captions import captions
from msd.distill.distill import Announcement, Observer, distill
from msd.distill.settings import DistillationSettings, Goal, ScaleRange, TeacherData, Training
from msd.distill.training import TrainingProgress
from scripts.full_size_training import measure_full_size
from scripts.measured import machine
from scripts.recovered_demo import CALIBRATED_ON, NAME, STUDENT, compare_recovered, train_recovered

GUIDANCE = ScaleRange(7.5, 7.5)
STUDENTS = {"one pass": Goal(GUIDANCE), "8 steps": Goal(GUIDANCE, 8), "4 steps": Goal(GUIDANCE, 4)}
TRAINING = Training(updates=250, batch=256, rate=6e-4, warmup=25)
SMOKE = Training(updates=2, batch=2, rate=1e-4, warmup=1)


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


def train_student(name: str, goal: Goal, settings: DistillationSettings, folder: Path) -> dict[str, Any]:
    """Distil the demo checkpoint to `folder`; return the seconds and the last loss of each stage trained."""
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
    distill(CHECKPOINT, folder, replace(settings, goal=goal), observer)
    return {"seconds": time.monotonic() - begun, "stages": stages}


def row(column: Column) -> dict[str, Any]:
    """Return what the table says of a column of a comparison, without the place of its model."""
    return {name: value for name, value in asdict(column).items() if name not in ("images", "model")}


def measure_demo(work: Path, out: Path, count: int, trajectories: int, training: Training) -> None:
    """Train every student, compare its images with the teacher's, and write what is known by then."""
    prompts = work / "prompts.txt"
    prompts.write_text("\n".join(dict.fromkeys(captions("train", trajectories, 1))), "utf-8")
    settings = DistillationSettings(
        data=TeacherData(prompts, trajectories),
        goal=Goal(GUIDANCE),
        state=work / "state",
        training=training,
        save_every=training.updates,
    )
    held_back = [*captions("held-back", count, 0)]
    result: dict[str, Any] = {"training": asdict(training), "trajectories": trajectories, "captions": count}
    for name, goal in STUDENTS.items():
        trained = train_student(name, goal, settings, work / name.replace(" ", "-"))
        comparison = compare(
            ComparedModel(CHECKPOINT),
            ComparedModel(work / name.replace(" ", "-")),
            held_back,
            batch=256 if torch.cuda.is_available() else 4,
            perceptual=False,
        )
        columns = [row(column) for column in comparison.result.columns]
        result[name] = {**trained, "columns": columns}
        write("distill-demo", result, out)
        for column in columns:
            say(f"{name}: {json.dumps(column)}")
        contact_sheet(comparison).save(out / f"distill-{name.replace(' ', '-')}.png", optimize=True)
    result[NAME] = train_recovered(work, settings, train_student)
    write("distill-demo", result, out)
    add_recovered(work, work / STUDENT, held_back, out)


def add_recovered(work: Path, student: Path, held_back: Sequence[str], out: Path) -> None:
    """Add to the figures in `out` those of a recovered student's file, a refitted and a merely pruned one."""
    path = out / "distill-demo.json"
    figures = json.loads(path.read_text("utf-8"))
    prompts = [*dict.fromkeys(captions("train", CALIBRATED_ON, 1))]
    figures[NAME] |= {"compared_on": machine(), **compare_recovered(work, student, prompts, held_back)}
    path.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    say(f"{NAME}: {json.dumps(figures[NAME])}")


def write(name: str, figures: dict[str, Any], out: Path) -> None:
    """Write the figures and what they depend on."""
    path = out / f"{name}.json"
    path.write_text(json.dumps({**conditions(), **figures}, indent=2) + "\n", "utf-8")
    say(f"wrote {path}")


@click.group(help=__doc__)
def main() -> None:
    """Measure msd distill."""


@main.command("demo")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--captions", "count", default=240, help="Held-back captions to compare images of.")
@click.option("--trajectories", default=2048)
@click.option("--work", type=click.Path(path_type=Path), help="A folder for students, which is kept.")
@click.option("--smoke", is_flag=True, help="A few updates and images, to try the code on a CPU.")
def demo(output: Path, count: int, trajectories: int, work: Path | None, smoke: bool) -> None:
    """Train students of the demo checkpoint and compare them with it."""
    if smoke:
        count, trajectories = 2, 4
    with ExitStack() as stack:
        folder = work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        measure_demo(folder, output, count, trajectories, SMOKE if smoke else TRAINING)


@main.command("recovered")
@click.argument("student", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--captions", "count", default=240, help="Held-back captions to compare images of.")
def recovered(student: Path, output: Path, count: int) -> None:
    """Compare a recovered STUDENT that `demo` has trained, on another machine perhaps."""
    with tempfile.TemporaryDirectory() as work:
        add_recovered(Path(work), student, [*captions("held-back", count, 0)], output)


@main.command("full-size")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--updates", default=20)
@click.option("--smoke", is_flag=True, help="The demo's U-Net in place of the large one, to try the code.")
def full_size(output: Path, updates: int, smoke: bool) -> None:
    """Train Stable Diffusion 2.1's U-Net for a few updates of each objective."""
    with tempfile.TemporaryDirectory() as work:
        figures = measure_full_size(Path(work), updates, smoke, say)
    if Accelerator().is_main_process:
        write(f"distill-full-size-{Accelerator().num_processes}", figures, output)


if __name__ == "__main__":
    main()
