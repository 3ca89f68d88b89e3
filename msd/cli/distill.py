"""`msd distill`: a checkpoint that generates in fewer steps, and without a second pass for guidance."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from msd.bounds import MOST_GUIDANCE
from msd.cli import completion, options
from msd.cli.command import Command, Failure
from msd.cli.options import FILE, FOLDER
from msd.cli.plain import say, say_json
from msd.cli.progress import component_progress
from msd.files.wording import counted

if TYPE_CHECKING:
    from msd.train.distill.distill import Announcement, Observer
    from msd.train.distill.settings import DistillationSettings, ScaleRange
    from msd.train.distill.training import TrainingProgress

PACKAGES = "accelerate", "diffusers", "matplotlib", "peft", "torch", "transformers"
MOST_COUNT = 1_000_000
INT4_RATE = 2e-5
"""The largest rate for int4 that is worth a try (docs/distill.md)."""

SLOW = ", which takes days for a model of full size: PyTorch sees no CUDA GPU"

EXAMPLE = """\b
Examples:
  msd distill sd21 --prompts prompts.txt --guidance 7.5 --steps 8 -o sd21-8-steps
  msd distill sd21 --prompts prompts.txt --guidance 2..14 --lcm -o sd21-lcm
  msd distill sd21 --prompts prompts.txt --recover gpu-w8-pruned -o sd21-pruned
  accelerate launch --num_processes 2 -m msd.cli distill sd21 --prompts prompts.txt --guidance 7.5 -o student
"""


def _scales(ctx: click.Context, parameter: click.Parameter, value: str | None) -> ScaleRange | None:
    """Read "7.5" or "2..14"."""
    if value is None:
        return None
    from msd.train.distill.settings import ScaleRange

    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(?:\.\.(\d{1,9}(?:\.\d{1,9})?))?", value)
    least, most = (float(match[1]), float(match[2] or match[1])) if match else (0.0, 0.0)
    if not 1 < least <= most <= MOST_GUIDANCE:
        raise click.BadParameter(f"{value} is no scale above 1, and no range of them; write 7.5 or 2..14")
    return ScaleRange(least, most)


def _count(name: str, default: int, help: str, least: int = 1) -> Callable[[Any], Any]:
    """Return the option of a whole number."""
    kind = click.IntRange(least, MOST_COUNT)
    return click.option(name, type=kind, default=default, show_default=True, metavar="N", help=help)


def _make_training(**values: Any) -> Any:
    from msd.train.distill.settings import Training

    return Training(**values)


_training = options.gathered(
    "training",
    _make_training,
    _count("--updates", 2000, "Updates of each stage."),
    _count("--batch", 16, "Points of trajectories in an update, of all processes together."),
    _count("--warmup", 100, "Updates in which the learning rate rises.", least=0),
    _count("--accumulate", 1, "Parts of an update, computed one after the other to save memory."),
    click.option(
        "--rate",
        type=options.Number(0, 1, open=True),
        default=5e-5,
        show_default=True,
        help="The highest learning rate.",
    ),
    click.option(
        "--optimizer",
        type=click.Choice(["adamw", "adamw8bit"]),
        default="adamw",
        show_default=True,
        help="AdamW, or with moments in 8 bits (package bitsandbytes).",
    ),
    click.option(
        "--lora",
        type=click.IntRange(1, 1024),
        metavar="RANK",
        help="With --lcm: train a LoRA of this rank, for msd-convert --lora.",
    ),
    click.option("--gradient-checkpointing", is_flag=True, help="Compute activations twice to save memory."),
)


@click.command(cls=Command, epilog=EXAMPLE)
@click.argument("checkpoint", type=FOLDER)
@click.option("--prompts", type=FILE, help="A text file of prompts, one per line.")
@click.option(
    "--images", type=FOLDER, help="Images to learn from instead, with metadata.jsonl.", metavar="FOLDER"
)
@options.output_folder()
@click.option(
    "--guidance",
    callback=_scales,
    metavar="SCALE|LEAST..MOST",
    help="Make guidance of this scale part of one pass; a range stays an input.",
)
@click.option("--steps", type=options.STEPS, help="Generate in so many steps.", metavar="N")
@click.option("--lcm", is_flag=True, help="Make it a latent consistency model: 4 steps, or --steps.")
@click.option(
    "--recover",
    metavar="RECIPE|REPORT",
    shell_complete=completion.completes(completion.recipes),
    help="Prune and round the U-Net as msd-convert does with a recipe, or as a prune report (.json) says, and"
    " train the compressed U-Net to match the original one's outputs.",
)
@_count("--trajectories", 2000, "Images that the teacher generates to learn from.")
@_training
@click.option(
    "--precision",
    type=click.Choice(["auto", "no", "bf16", "fp16"]),
    default="auto",
    show_default=True,
    help="Of passes; auto is bf16 on a GPU that has it, else no: float32.",
)
@click.option("--seed", type=options.SEED, default=0, show_default=True, help="Decides all random numbers.")
@click.option("--state", type=FOLDER, metavar="FOLDER", help="Keeps what is done.  [default: OUTPUT.state]")
@click.option(
    "--save-every", type=click.IntRange(1), default=200, show_default=True, help="Updates between two states."
)
@click.option(
    "--sample-every",
    type=click.IntRange(0),
    default=500,
    show_default=True,
    help="Updates between two sheets of images and plots of the loss; 0: none.",
)
@click.option(
    "--cuda-graph/--no-cuda-graph",
    default=True,
    show_default=True,
    help="Record an update on a GPU and repeat it: faster, with the same weights, where that is possible.",
)
@options.json_result()
def distill(checkpoint: Path, output: Path, as_json: bool, **asked: Any) -> None:
    """Train CHECKPOINT, a folder in diffusers' layout, to generate in one pass a step, or in fewer steps.

    It learns from images that it generates itself for the prompts. An interrupted run goes on where its last
    state was saved. Needs pip install 'msd[train]'. msd docs distill explains stages, memory and results.
    """
    from msd.files.packages import require_packages

    _refuse(checkpoint, **asked)
    _require_apart(output, asked["state"])
    require_packages("msd distill", "train", *PACKAGES)
    from msd.train.distill.distill import distill as distill_checkpoint
    from msd.train.distill.distill import is_main_process
    from msd.train.distill.result import require_free

    require_free(output)
    settings = _settings(output, **asked)
    with component_progress() as on_progress:
        result = distill_checkpoint(checkpoint, output, settings, _observer(settings, on_progress))
    if is_main_process():
        _print_result(output, settings, result.facts, as_json)


def _refuse(
    checkpoint: Path,
    prompts: Path | None,
    images: Path | None,
    guidance: ScaleRange | None,
    steps: int | None,
    lcm: bool,
    recover: str | None,
    training: Any,
    **others: Any,
) -> None:
    """Refuse what does not go together and what is not there, before seconds of loading PyTorch."""
    if (prompts is None) == (images is None):
        raise click.UsageError(
            "give --prompts, or --images with captions, one of the two: what should it learn from?"
        )
    if images:
        options.refuse_given(("trajectories",), "with --images, which take the place of trajectories")
    if lcm and guidance is None:
        raise click.UsageError("--lcm needs --guidance, which becomes part of one pass; give 7.5 or 2..14")
    if training.lora and (not lcm or (guidance and guidance.is_range)):
        raise click.UsageError("--lora is for --lcm with one scale; a range of scales needs another graph")
    if training.lora and recover is not None:
        raise click.UsageError(
            "--lora writes a LoRA alone, which cannot hold a pruned network; leave out one"
        )
    if guidance is None and steps is None and recover is None:
        raise click.UsageError("give --guidance, --steps, or --recover: what should the student do?")
    for place in (checkpoint, prompts, images):
        if place and not place.exists():
            raise Failure(f"{place} does not exist")


def _require_apart(output: Path, state: Path | None) -> None:
    """Refuse a state in the folder of the result, which would hold both."""
    if state and state.resolve().is_relative_to(output.resolve()):
        raise click.UsageError(f"--state {state} lies in {output}, which is for the student alone.")


def _settings(
    output: Path,
    prompts: Path | None,
    images: Path | None,
    guidance: ScaleRange | None,
    steps: int | None,
    lcm: bool,
    recover: str | None,
    trajectories: int,
    training: Any,
    precision: str,
    seed: int,
    state: Path | None,
    save_every: int,
    sample_every: int,
    cuda_graph: bool,
) -> DistillationSettings:
    import graph_rewrites
    from msd.train.distill.settings import DistillationSettings, Goal, TeacherData
    from msd.train.distill.training import chosen_precision

    return DistillationSettings(
        data=TeacherData(prompts, trajectories, seed, images),
        goal=Goal(guidance, steps, lcm, recover),
        state=state or output.with_name(f"{output.name}.state"),
        training=training,
        precision=chosen_precision(precision),
        rules=graph_rewrites.load() if recover is not None else (),
        save_every=save_every,
        sample_every=sample_every,
        cuda_graph=cuda_graph,
    )


def _observer(settings: DistillationSettings, on_progress: Any) -> Observer:
    """Return what shows a distillation's progress in bars."""
    from msd.train.distill.distill import Observer

    images, ahead = settings.data.images, list[tuple[int, int]]()
    updates, every = settings.training.updates, settings.sample_every

    def on_plan(announced: Announcement) -> None:
        stages = len(announced.missing)
        ahead.append((stages * updates, stages * (updates // every) if every else 0))
        _announce(announced, settings)

    def on_training(progress: TrainingProgress) -> None:
        while ahead:
            _say_duration(*ahead.pop(), progress.updates_per_second)
        memory = f", {progress.peak_bytes / 1e9:.1f} GB" if progress.peak_bytes else ""
        what = f"loss {progress.loss:.3g}, {progress.updates_per_second:.2f}/s{memory}"
        on_progress(progress.stage, what, progress.update, progress.updates)

    return Observer(
        on_plan=on_plan,
        on_source=lambda done, total: on_progress("images" if images else "trajectories", "", done, total),
        on_progress=on_training,
        on_layer=lambda done, total: on_progress("recover", "rounding layers", done, total),
        on_choice=lambda: on_progress("recover", "choosing units", 0, 1),
    )


def _say_duration(updates: int, sheets: int, speed: float) -> None:
    """Say how long all stages that are missing take, as soon as updates have been timed."""
    beside = f", without the images of {counted(sheets, 'sheet')}" if sheets else ""
    taken = f"{_duration(updates / speed)}{beside}"
    say(f"{speed:.2f} updates/s: the {updates} of all stages take {taken}", err=True)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _announce(announced: Announcement, settings: DistillationSettings) -> None:
    """Say what is going to be done, where, and what it takes."""
    training = settings.training
    say(f"on {announced.device}{SLOW if announced.device == 'CPU' else ''}", err=True)
    say(announced.summary, err=True)
    if announced.recovery:
        say(f"{settings.goal.recover}: {announced.recovery}", err=True)
    for stage in announced.stages:
        done = "" if stage.name in announced.missing else ", done already"
        predicted = "v" if stage.prediction == "v_prediction" else "noise"
        updates = f"{counted(training.updates, 'update')} of {counted(training.batch, 'point')}"
        say(f"{stage.name}: {updates}, predicts {predicted}{done}", err=True)
    if announced.has_int4 and training.rate > INT4_RATE:
        say(
            f"a rate of {training.rate:g} lets int4 weights swing between two integers;"
            " --rate 1e-5 did better on the demo checkpoint (msd docs distill)",
            err=True,
        )
    if announced.turns_to_v:
        say("so few steps need a student that predicts v, which this checkpoint does not do yet", err=True)
    gigabytes = announced.least_bytes / 1e9
    say(f"weights, gradients and moments take {gigabytes:.1f} GB; activations come on top", err=True)


def _print_result(output: Path, settings: DistillationSettings, facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        say_json(json.dumps(facts, indent=2))
        return
    images = facts["images"]
    say(f"{output}: {counted(images['steps'], 'step')}, guidance {images['guidance']:g}")
    say(f"{settings.state} keeps trajectories and students for other runs; it may be deleted")
