"""Updates of a student's weights, which a GPU records once and then repeats without Python.

A small network's update is thousands of small kernels, which Python starts one by one, slower than the GPU
computes them. A CUDA graph starts them all at once, the same ones in the same order: the same weights come of
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch

from msd.errors import BadConfig
from msd.train.distill.fake_quantization import settle_layers
from msd.train.distill.objectives import Loss
from msd.train.distill.passes import Points
from msd.train.distill.settings import Training

if TYPE_CHECKING:
    from accelerate import Accelerator

WARM_UP = 3
"""The updates before the one that is recorded: libraries choose and allocate what they need in these."""

Take = Callable[[Sequence[Points]], Any]
"""Takes one step down the gradient at the points of an update's parts; returns the mean loss."""

Work = Callable[[], Any]


class Recorder(Protocol):
    """What records work and repeats it."""

    def aside(self, work: Work) -> Any:
        """Return what `work` returns, done in such a way that it can be recorded afterwards."""

    def record(self, work: Work) -> Work:
        """Return what repeats `work`, which is not done now; its result is always the same tensor."""


def make_update(model: Any, optimizer: Any, loss: Loss, accelerator: Accelerator) -> Take:
    """Return what takes steps, for a model and an optimizer that accelerate has prepared."""

    def take(parts: Sequence[Points]) -> Any:
        total = 0.0
        for points in parts:
            with accelerator.accumulate(model):
                with accelerator.autocast():
                    value = loss.of(model, points)
                accelerator.backward(value)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                if accelerator.sync_gradients:
                    settle_layers(model)
            total = total + value.detach() / len(parts)
        return total

    return take


def can_record(training: Training, accelerator: Accelerator) -> bool:
    """Return whether updates can be recorded: on one GPU, by AdamW, without what looks at values on the CPU.

    Scales of gradients (fp16) do, and gradient checkpointing, which keeps the state of random numbers.
    """
    return (
        accelerator.device.type == "cuda"
        and accelerator.num_processes == 1
        and accelerator.mixed_precision != "fp16"
        and training.optimizer == "adamw"
        and not training.gradient_checkpointing
    )


class RecordedUpdate:
    """Takes steps as `take` does: the first ones itself, then by repeating a recorded one on other points."""

    def __init__(self, take: Take, recorder: Recorder) -> None:
        self._take, self._recorder, self._taken = take, recorder, 0
        self._inputs: list[Points] = []
        self._repeat: Work | None = None

    def __call__(self, parts: Sequence[Points]) -> Any:
        """Take a step; raises BadConfig where it cannot be recorded."""
        if self._taken < WARM_UP:
            self._taken += 1
            return self._recorder.aside(partial(self._take, parts))
        if self._repeat is None:
            self._inputs = [points.each(torch.clone) for points in parts]
            self._repeat = self._recorder.record(partial(self._take, self._inputs))
        for kept, points in zip(self._inputs, parts, strict=True):
            for name, tensor in kept.tensors.items():
                tensor.copy_(points.tensors[name])
        return self._repeat().clone()


class CudaRecorder:
    """Records work of the current GPU as CUDA graphs."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()

    def aside(self, work: Work) -> Any:
        """Return what `work` returns, done on another stream than usual."""
        here = torch.cuda.current_stream()
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            result = work()
        here.wait_stream(self._stream)
        return result

    def record(self, work: Work) -> Work:
        """Return what repeats the GPU's part of `work`; raises BadConfig where it cannot be recorded."""
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                result = work()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as problem:
            reason = " ".join(str(problem).split())[:200]
            raise BadConfig(
                f"the GPU cannot record an update ({reason}); go on with --no-cuda-graph"
            ) from problem

        def repeat() -> Any:
            graph.replay()
            return result

        return repeat
