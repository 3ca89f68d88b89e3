"""One optimisation that can be interrupted and resumed: AdamW, a rate schedule, averaged weights."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from scripts.lab.demo_training.recipe import Stage

Say = Callable[[str], None]
_REPORT_EVERY = 250
_SAVE_EVERY = 2_500


class OutOfTime(Exception):
    """The time limit is reached; the progress so far is in the state file."""


@dataclass(frozen=True)
class TrainingRun:
    """A training run: its state's folder, its deadline (`time.monotonic`), and its function for progress."""

    folder: Path
    device: str
    stop_at: float
    say: Say

    def generator(self, seed: int, step: int) -> Any:
        """Return the random generator of one step, so that a resumed run draws the same numbers."""
        return torch.Generator(self.device).manual_seed(seed * 1_000_003 + step)

    @property
    def compiles(self) -> bool:
        """Return whether compiling pays off, which is on a GPU."""
        return self.device != "cpu"


def save(state: object, path: Path) -> None:
    """Write a state file atomically."""
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, path)


def load(path: Path, device: str) -> Any:
    """Return the state that `save` wrote, or None if there is no file yet."""
    return torch.load(path, map_location=device, weights_only=True) if path.exists() else None


class Optimisation:
    """The weights of `model`, their average and the optimiser's moments, after `step` steps."""

    def __init__(self, model: Any, stage: Stage, path: Path, device: str) -> None:
        self.stage, self.path = stage, path
        self.weights = list(model.parameters())
        self.average = [weight.detach().clone() for weight in self.weights]
        self.optimiser = torch.optim.AdamW(
            self.weights, lr=stage.rate, betas=(0.9, 0.99), weight_decay=0.01, fused=device != "cpu"
        )
        self.step, self.seconds = 0, 0.0
        if state := load(path, device):
            self._restore(state)

    def _restore(self, state: dict[str, Any]) -> None:
        self.step, self.seconds = state["step"], state["seconds"]
        self.optimiser.load_state_dict(state["optimiser"])
        with torch.no_grad():
            for kept, stored in ((self.weights, state["weights"]), (self.average, state["average"])):
                for tensor, value in zip(kept, stored, strict=True):
                    tensor.copy_(value)

    def store(self) -> None:
        """Write everything needed to go on from this step."""
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "weights": [weight.detach() for weight in self.weights],
            "average": self.average,
            "optimiser": self.optimiser.state_dict(),
        }
        save(state, self.path)

    def advance(self, loss: Any) -> None:
        """Take one step down the gradient of `loss`."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.stage.rate_at(self.step)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimiser.step()
        self.step += 1
        decay = min(self.stage.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(self.average, self.weights, 1 - decay)

    def finish(self) -> None:
        """Put the average in place of the weights."""
        with torch.no_grad():
            for weight, mean in zip(self.weights, self.average, strict=True):
                weight.copy_(mean)


def train(name: str, model: Any, loss: Callable[[int], Any], stage: Stage, run: TrainingRun) -> float:
    """Train `model` on `loss(step)` to the end of `stage`, from its last state file if there is one.

    Leaves the averaged weights in `model` and returns the seconds spent over all runs. Raises `OutOfTime` at
    `run.stop_at`, after writing the state file, and ArithmeticError if the loss is no longer finite.
    """
    path = run.folder / f"{name}.pt"
    work = Optimisation(model, stage, path, run.device)
    begun, before = time.monotonic(), work.seconds
    while work.step < stage.steps:
        value = loss(work.step)
        work.advance(value)
        late = time.monotonic() > run.stop_at
        if work.step % _REPORT_EVERY == 0 or work.step in (1, stage.steps) or late:
            number = float(value.detach())
            work.seconds = before + time.monotonic() - begun
            run.say(f"{name}: step {work.step}/{stage.steps}, loss {number:.4f}, {work.seconds:.0f} s")
            if number != number:
                raise ArithmeticError(f"the {name}'s loss is not a number at step {work.step}")
        if work.step % _SAVE_EVERY == 0 or work.step == stage.steps or late:
            work.store()
        if late and work.step < stage.steps:
            raise OutOfTime(f"{name} stopped at step {work.step} of {stage.steps}")
    work.finish()
    return work.seconds
