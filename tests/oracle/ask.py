"""Ask the real delegate about many small models, without a process for each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import numpy as np

from msd.graph import tflite
from msd.graph.ir.interface import Interface
from msd.graph.ir.weights import Array
from msd.measure.judging.verdict import THRESHOLD_DB, distance
from msd.run.runners import native_log
from msd.run.runners.child import Bounds, Child, ChildLost, ChildRefused
from msd.run.runners.messages import LoadOnCpu, LoadOnGpu, RunModel
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import VulkanAdapter
from msd.run.runners.wheels.child import WheelChild
from tests.oracle.case import Case

BOUNDS = Bounds(120.0, 6 * 10**9)


OF_THE_CPU = re.compile("tflite/kernels/|^Only float32, uint8, int8, int16 is supported currently")
"""What the CPU's kernels say, which check a file before the delegate does."""

NOT_BOUND = re.compile("Unsupported dtype")
"""What the Python package says of inputs that its buffers cannot hold; the file is compiled by then."""


@dataclass(frozen=True)
class Trial:
    """One attempt on one side: what was logged, how far it came."""

    text: str
    loaded: bool
    outputs: dict[str, Array] | None = None
    failure: str | None = None
    crashed: bool = False


@dataclass(frozen=True)
class Answer:
    """What the delegate made of a case.

    `rejected` are its (kind, reason) pairs. `failure` is why the file did not compile or run though no
    operation was rejected, or the error in the log. `psnr` is the lowest of the outputs' in dB, None where
    one side gave no numbers; `reference` says why the CPU gave none.
    """

    rejected: tuple[tuple[str, str], ...] = ()
    failure: str | None = None
    crashed: bool = False
    invalid: bool = False
    psnr: float | None = None
    reference: str | None = None

    @property
    def verdict(self) -> str:
        """One of: invalid (the CPU cannot load it either), rejected, failed, wrong, right, unchecked.

        The last one is taken, and there are no numbers to compare with.
        """
        if self.rejected:
            return "rejected"
        if self.failure:
            return "invalid" if self.invalid else "failed"
        if self.psnr is None:
            return "unchecked"
        return "wrong" if math.isnan(self.psnr) or self.psnr < THRESHOLD_DB["fp32"] else "right"


class Asker:
    """Two child processes, one with the GPU delegate and one on the CPU, started anew when one is lost.

    `python` is that of an environment with another version of LiteRT, whose delegate is then asked.
    """

    def __init__(self, adapter: VulkanAdapter, python: Path | None = None) -> None:
        self.adapter, self.python = adapter, python
        self._folder = TemporaryDirectory(prefix="msd-oracle-")
        self._children: dict[str, Child] = {}

    def ask(self, case: Case) -> Answer:
        """Return the delegate's answer; one that is not smooth is asked again in a process of its own."""
        answer = self._ask(case)
        if answer.verdict in ("failed", "wrong", "unchecked"):
            self.close()
            answer = self._ask(case)
        return answer

    def close(self) -> None:
        """End the children."""
        for child in self._children.values():
            child.close()
        self._children = {}

    def __enter__(self) -> Asker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._folder.cleanup()

    def _ask(self, case: Case) -> Answer:
        path, twin = (Path(self._folder.name) / name for name in ("case.tflite", "twin.tflite"))
        tflite.write(case.model, path)
        tflite.write(case.twin or case.model, twin)
        ports = Interface.of(tflite.read(path), path)
        inputs = random_inputs(ports.inputs.values())
        if case.positive:
            inputs = {k: _positive(v) for k, v in inputs.items()}
        gpu = self._run("gpu", LoadOnGpu(path, "fp32", ports.signature), inputs)
        return answer_of(gpu, lambda: self._run("cpu", LoadOnCpu(twin), inputs))

    def _run(self, side: str, load: LoadOnGpu | LoadOnCpu, inputs: dict[str, Array]) -> Trial:
        child = self._children.get(side)
        if child is None:
            child = self._children[side] = self._start(side)
        before, loaded = len(child.log), False
        try:
            child.ask(load)
            loaded = True
            outputs = child.ask(RunModel(inputs)).outputs
        except ChildRefused as problem:
            return Trial(child.log[before:], loaded, failure=str(problem))
        except ChildLost as problem:
            text = child.log[before:]
            self._children.pop(side).close()
            return Trial(text, loaded, failure=str(problem), crashed=True)
        return Trial(child.log[before:], loaded, outputs)

    def _start(self, side: str) -> Child:
        if side == "cpu":
            return Child({}, BOUNDS)
        if self.python is None:
            return Child(self.adapter.environment, BOUNDS)
        return WheelChild(self.python, self.adapter.environment, BOUNDS)


def answer_of(gpu: Trial, on_cpu: Callable[[], Trial]) -> Answer:
    """Return the delegate's answer; `on_cpu` is called only where it matters."""
    facts = native_log.parse(gpu.text)
    if facts.rejected and not gpu.crashed:
        return Answer(facts.rejected)
    cpu = on_cpu()
    if gpu.outputs is None and gpu.loaded and NOT_BOUND.search(gpu.failure or ""):
        return Answer(reference=gpu.failure)
    if gpu.outputs is None or facts.problems:
        failure = next(iter(facts.problems), gpu.failure)
        return Answer((), failure, gpu.crashed, not cpu.loaded or bool(OF_THE_CPU.search(failure or "")))
    if cpu.outputs is None:
        return Answer(reference=cpu.failure)
    return Answer(psnr=_least(gpu.outputs, cpu.outputs))


def _positive(values: Array) -> Array:
    if values.dtype.kind == "f":
        return np.asarray(np.abs(values) + 1, values.dtype)
    return values % 4 + 1 if values.dtype.kind in "iu" else values


def _least(gpu: Mapping[str, Array], cpu: Mapping[str, Array]) -> float:
    """Return the lowest PSNR of the outputs, in their order, NaN if one is not finite."""
    pairs = zip(gpu.items(), cpu.values(), strict=True)
    every = [distance(name, value, reference).psnr for (name, value), reference in pairs]
    return math.nan if any(map(math.isnan, every)) else min(every)


def in_turn(
    cases: list[Case], adapter: VulkanAdapter, python: Path | None = None
) -> Iterator[tuple[Case, Answer]]:
    """Yield each case with its answer, of the LiteRT in the environment of `python` if that is given."""
    with Asker(adapter, python) as asker:
        for case in cases:
            yield case, asker.ask(case)
