"""Updates that are recorded and repeated: on a CPU with a stand-in for the GPU's graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from msd.train.distill import training as training_module
from msd.train.distill.distill import distill
from msd.train.distill.objectives import Loss
from msd.train.distill.passes import Points, sent
from msd.train.distill.settings import DistillationSettings, Goal, ScaleRange, Training
from msd.train.distill.training import keep_rates, make_optimizer, set_rates
from msd.train.distill.updates import WARM_UP, RecordedUpdate, Take, Work, can_record, make_update
from tests.test_distill import TRAINING, checkpoint, observer, settings, weights

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["checkpoint", "settings"]


class RecorderOnCpu:
    """Repeats work by doing it again: as a graph's, its inputs and its result stay the same tensors."""

    made: list[RecorderOnCpu]

    def __init__(self) -> None:
        self.asides, self.recordings, self.repeats = 0, 0, 0
        RecorderOnCpu.made.append(self)

    @staticmethod
    def is_recorded(number: int) -> bool:
        """Return whether the recorder of this number has begun to record."""
        return number < len(RecorderOnCpu.made) and RecorderOnCpu.made[number].recordings > 0

    def aside(self, work: Work) -> Any:
        assert self.recordings == 0
        self.asides += 1
        return work()

    def record(self, work: Work) -> Work:
        self.recordings += 1
        result = torch.empty(())

        def repeat() -> Any:
            self.repeats += 1
            return result.copy_(work())

        return repeat


WAITING = "_local_scalar_dense", "nonzero", "lift_fresh"
"""What reads a tensor's values on the CPU, or makes a tensor of Python's numbers: a GPU cannot record it."""


class Watched(TorchDispatchMode):  # type: ignore[misc]
    """Refuses what a GPU cannot record."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.name().removeprefix("aten::").partition(".")[0]
        assert name not in WAITING, f"{name} cannot be recorded"
        return function(*args, **(kwargs or {}))


def watched(loss: Loss, is_recorded: Callable[[], bool]) -> Loss:
    """Return a loss that refuses what cannot be recorded, once it is."""

    def of(student: Any, points: Points) -> Any:
        with Watched() if is_recorded() else nullcontext():
            return loss.of(student, points)

    return Loss(loss.draw, of)


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> list[RecorderOnCpu]:
    """All recorders of a test, in which updates are recorded on the CPU."""
    RecorderOnCpu.made = []
    monkeypatch.setattr(training_module, "can_record", lambda training, accelerator: True)
    monkeypatch.setattr(training_module, "CudaRecorder", RecorderOnCpu)

    def make(model: Any, optimizer: Any, loss: Loss, accelerator: Accelerator) -> Take:
        last = len(RecorderOnCpu.made)
        watching = watched(loss, lambda: RecorderOnCpu.is_recorded(last))
        return make_update(model, optimizer, watching, accelerator)

    monkeypatch.setattr(training_module, "make_update", make)
    return RecorderOnCpu.made


@pytest.mark.parametrize(
    "goal",
    [
        Goal(ScaleRange(3, 3), 10),
        Goal(ScaleRange(2, 14), 4, lcm=True),
        Goal(recover="gpu-w8"),
        Goal(recover="gpu-w4"),
    ],
    ids=["fewer steps", "latent consistency of a range", "recovery", "recovery of int4"],
)
def test_recorded_updates_give_the_same_weights(
    tmp_path: Path,
    checkpoint: Path,
    settings: DistillationSettings,
    recorders: list[RecorderOnCpu],
    goal: Goal,
) -> None:
    import graph_rewrites

    longer = replace(
        settings, goal=goal, rules=graph_rewrites.load(), training=replace(TRAINING, updates=5, accumulate=2)
    )
    plain = replace(longer, state=tmp_path / "plain.state", cuda_graph=False)
    distill(checkpoint, tmp_path / "plain", plain, observer())
    assert not recorders
    distill(checkpoint, tmp_path / "recorded", longer, observer())
    assert {(each.asides, each.recordings, each.repeats) for each in recorders} == {(WARM_UP, 1, 5 - WARM_UP)}
    wanted = weights(tmp_path / "plain")
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in weights(tmp_path / "recorded").items())


def test_a_recorded_update_reads_new_points_and_leaves_its_results_alone(
    recorders: list[RecorderOnCpu],
) -> None:
    def take(parts: Sequence[Points]) -> Any:
        return sum(points.latents.sum() + points.step.sum() for points in parts)

    def points(value: float) -> list[Points]:
        each = torch.full((2,), value)
        return [Points(latents=each, timesteps=each, ids=None, scales=None, step=each)] * 2

    update = RecordedUpdate(take, RecorderOnCpu())
    results = [update(points(value)) for value in range(8)]
    assert [float(result) for result in results] == [8.0 * value for value in range(8)]


def here(device: str = "cuda", processes: int = 1, precision: str = "bf16") -> Any:
    """Return what `can_record` asks of accelerate."""
    return SimpleNamespace(device=torch.device(device), num_processes=processes, mixed_precision=precision)


@pytest.mark.parametrize(
    ("training", "accelerator", "can"),
    [
        (Training(), here(), True),
        (Training(accumulate=4, lora=8), here(precision="no"), True),
        (Training(optimizer="adamw8bit"), here(), False),
        (Training(gradient_checkpointing=True), here(), False),
        (Training(), here(precision="fp16"), False),
        (Training(), here(processes=2), False),
        (Training(), here("cpu"), False),
    ],
)
def test_which_updates_can_be_recorded(training: Training, accelerator: Any, can: bool) -> None:
    assert can_record(training, accelerator) == can


def test_rates_are_set_where_they_are() -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    optimizer = accelerator.prepare(make_optimizer(torch.nn.Linear(2, 3), Training()))
    keep_rates(optimizer, accelerator)
    set_rates(optimizer, 0.25)
    assert optimizer.param_groups[0]["lr"] == 0.25
    rate = torch.tensor(0.5)
    optimizer.param_groups[0]["lr"] = rate
    set_rates(optimizer, 0.125)
    assert optimizer.param_groups[0]["lr"] is rate
    assert float(rate) == 0.125


def test_what_is_sent_to_the_cpu_stays_as_it_is() -> None:
    tensor = torch.arange(3)
    assert torch.equal(sent(tensor, "cpu"), tensor)


@pytest.mark.parametrize(
    "waits", [lambda x: float(x.sum()), lambda x: x * torch.tensor([2.0])], ids=["a value", "a new tensor"]
)
def test_what_cannot_be_recorded_is_seen(waits: Any) -> None:
    points = Points(latents=torch.ones(2), timesteps=None, ids=None, scales=None)
    loss = Loss(lambda random, size: points, lambda student, at: waits(at.latents))
    with pytest.raises(AssertionError, match="cannot be recorded"):
        watched(loss, lambda: True).of(None, points)
