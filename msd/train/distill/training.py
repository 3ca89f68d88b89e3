"""Training of one stage, which goes on from its last state after it was interrupted."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from msd.errors import BadConfig, NoMemory, NotFinite
from msd.files.fingerprint import fingerprint
from msd.train.distill.objectives import Loss
from msd.train.distill.passes import Points
from msd.train.distill.saving import says_unwritable
from msd.train.distill.settings import Precision, Training
from msd.train.distill.updates import CudaRecorder, RecordedUpdate, can_record, make_update

if TYPE_CHECKING:
    from accelerate import Accelerator

REPORT_EVERY = 20
"""The updates between two lines of the log, whose losses are the means of these updates."""

STATE = "update-"
LOG = "log.jsonl"


@dataclass(frozen=True)
class TrainingProgress:
    """What a line of a stage's log says; `seconds` are those since the stage began or went on."""

    stage: str
    update: int
    updates: int
    loss: float
    rate: float
    seconds: float
    updates_per_second: float
    peak_bytes: int


OnProgress = Callable[[TrainingProgress], None]
OnSample = Callable[[Any, int], None]
"""Called with the student and the number of its updates."""


@dataclass(frozen=True)
class StageRun:
    """One training: its name, the folder of its state, and what determines its result."""

    name: str
    folder: Path
    training: Training
    seed: int
    save_every: int
    sample_every: int
    cuda_graph: bool = True
    """Whether a GPU that can record updates does."""

    def random(self, update: int, part: int, process: int) -> Any:
        """Return the random numbers of a part of an update, the same ones after an interruption."""
        digits = fingerprint([self.seed, self.name, update, part, process])[:15]
        return torch.Generator("cpu").manual_seed(int(digits, 16))


def train(
    stage: StageRun,
    student: Any,
    loss: Loss,
    accelerator: Accelerator,
    on_progress: OnProgress,
    on_sample: OnSample,
) -> Any:
    """Train `student` to the end of a stage and return it.

    After an interruption the same call goes on from the last state in the stage's folder. Raises NotFinite
    where the loss is not, NoMemory, OutputUnwritable where a state cannot be saved, and BadConfig where a GPU
    cannot record an update.
    """
    training = stage.training
    optimizer = make_optimizer(student, training)
    model, optimizer = accelerator.prepare(student, optimizer)
    first = _resume(stage, accelerator)
    keep_rates(optimizer, accelerator)
    take = make_update(model, optimizer, loss, accelerator)
    if stage.cuda_graph and can_record(training, accelerator):
        take = RecordedUpdate(take, CudaRecorder())
    log = Log(stage, first, accelerator, on_progress)
    for update in range(first, training.updates):
        set_rates(optimizer, rate_at(training, update))
        with says_no_memory(stage.name):
            mean = take(_points(stage, update, loss, accelerator))
        done = update + 1
        log.add(mean, done)
        if done % stage.save_every == 0 and done < training.updates:
            _save(stage, done, accelerator)
        if accelerator.is_main_process and stage.sample_every and done % stage.sample_every == 0:
            on_sample(accelerator.unwrap_model(model), done)
    student = accelerator.unwrap_model(model, keep_fp32_wrapper=False)
    accelerator.free_memory()
    return student


@contextmanager
def says_no_memory(stage: str) -> Iterator[None]:
    """Raise NoMemory, which names what helps, where the `with` block exceeds the GPU's memory."""
    try:
        yield
    except torch.OutOfMemoryError as problem:
        raise NoMemory(
            f"{stage} does not fit into the GPU's memory; give a smaller --batch, a larger --accumulate,"
            " --gradient-checkpointing, --no-cuda-graph, or --optimizer adamw8bit"
        ) from problem


def rate_at(training: Training, update: int) -> float:
    """Return the learning rate of an update, counted from 0: a linear rise, then a linear fall to zero."""
    rise = (update + 1) / max(1, training.warmup)
    fall = (training.updates - update) / max(1, training.updates - training.warmup)
    return training.rate * min(1.0, rise, fall)


def keep_rates(optimizer: Any, accelerator: Accelerator) -> None:
    """Keep an optimizer's learning rates on the GPU, if there is one, where recorded updates read them."""
    if accelerator.device.type == "cuda" and isinstance(optimizer.optimizer, torch.optim.AdamW):
        for group in optimizer.param_groups:
            group["lr"] = torch.tensor(float(group["lr"]), device=accelerator.device)
            group["capturable"] = True


def set_rates(optimizer: Any, rate: float) -> None:
    """Set an optimizer's learning rates, wherever they are."""
    for group in optimizer.param_groups:
        if torch.is_tensor(group["lr"]):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def chosen_precision(name: str) -> Precision:
    """Return the precision of this name, for "auto" that of the GPU: bf16 where it has that."""
    if name != "auto":
        return cast(Precision, name)
    return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "no"


def least_bytes(parameters: int, training: Training, precision: Precision) -> int:
    """Return the bytes that weights take on a GPU: the student's, its gradients and moments, and a teacher's.

    AdamW has two moments of each weight, in 4 bytes or 1; the frozen teacher is in the precision of passes.
    A LoRA's own weights are a hundredth of the others, which then have neither gradients nor moments.
    """
    moments = 2 if training.optimizer == "adamw8bit" else 8
    learning = 0 if training.lora else 4 + moments
    return parameters * (4 + learning + (4 if precision == "no" else 2))


def make_optimizer(student: Any, training: Training) -> Any:
    """Return AdamW without weight decay, as Salimans and Ho train; its moments in 8 bits by bitsandbytes."""
    weights = [weight for weight in student.parameters() if weight.requires_grad]
    if training.optimizer == "adamw8bit":
        try:
            from bitsandbytes.optim import AdamW8bit
        except ImportError as problem:
            raise BadConfig(f"adamw8bit needs bitsandbytes, which is not installed ({problem})") from problem
        return AdamW8bit(weights, lr=training.rate, weight_decay=0.0)
    return torch.optim.AdamW(weights, lr=training.rate, weight_decay=0.0, fused=weights[0].is_cuda)


def _points(stage: StageRun, update: int, loss: Loss, accelerator: Accelerator) -> list[Points]:
    """Return the points of each part of this process's update."""
    parts = stage.training.accumulate
    size = stage.training.batch // parts // accelerator.num_processes
    with accelerator.autocast():
        return [
            loss.draw(stage.random(update, part, accelerator.process_index), size) for part in range(parts)
        ]


class Log:
    """The lines of a stage's log, one for each `REPORT_EVERY` updates and the last."""

    def __init__(
        self, stage: StageRun, first: int, accelerator: Accelerator, on_progress: OnProgress
    ) -> None:
        self._stage, self._first = stage, first
        self._accelerator, self._on_progress = accelerator, on_progress
        self._begun = time.monotonic()
        self._losses: list[Any] = []

    def add(self, loss: Any, done: int) -> None:
        """Add the loss of one update; raises NotFinite."""
        self._losses.append(loss)
        if done % REPORT_EVERY and done not in (self._first + 1, self._stage.training.updates):
            return
        mean = float(torch.stack(self._losses).mean())
        self._losses.clear()
        if not math.isfinite(mean):
            name = self._stage.name
            raise NotFinite(f"the loss of {name} is {mean} at update {done}; try a smaller --rate")
        if self._accelerator.is_main_process:
            self._write(self._progress(mean, done))

    def _progress(self, loss: float, done: int) -> TrainingProgress:
        seconds = time.monotonic() - self._begun
        return TrainingProgress(
            stage=self._stage.name,
            update=done,
            updates=self._stage.training.updates,
            loss=loss,
            rate=rate_at(self._stage.training, done - 1),
            seconds=round(seconds, 3),
            updates_per_second=(done - self._first) / max(seconds, 1e-9),
            peak_bytes=torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0,
        )

    def _write(self, progress: TrainingProgress) -> None:
        with (self._stage.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(progress)) + "\n")
        self._on_progress(progress)


def _resume(stage: StageRun, accelerator: Accelerator) -> int:
    """Restore the last state of a stage; return the number of its updates."""
    stage.folder.mkdir(parents=True, exist_ok=True)
    states = sorted(path for path in stage.folder.glob(f"{STATE}*") if path.name[len(STATE) :].isdigit())
    if not states:
        return 0
    accelerator.load_state(str(states[-1]))
    return int(states[-1].name[len(STATE) :])


def _save(stage: StageRun, done: int, accelerator: Accelerator) -> None:
    """Write the state after `done` updates, then remove older ones: a folder with its name is complete."""
    path = stage.folder / f"{STATE}{done:08}"
    partial = path.with_name(f"{path.name}.part")
    with says_unwritable(partial):
        accelerator.save_state(str(partial))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        shutil.rmtree(path, ignore_errors=True)
        partial.rename(path)
        remove_states(stage.folder, path)
    accelerator.wait_for_everyone()


def remove_states(folder: Path, kept: Path | None = None) -> None:
    """Delete the states in a stage's folder, whole and partial ones, but for `kept`."""
    for state in folder.glob(f"{STATE}*"):
        if state != kept:
            shutil.rmtree(state)
