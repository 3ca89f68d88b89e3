"""What `msd bench` measured, as an object with one JSON form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msd.files import schema
from msd.runners.machine import Machine
from msd.runners.runner import Arithmetic, ProcessMemory
from msd.runners.timings import Effort, Timings
from msd.runtime.execution import Execution

FORMAT = 1


@dataclass(frozen=True)
class Measurement:
    """One file of `operations` operations on one backend (its name in msd.runners.registry).

    `adapter`, `precision`, `threads`, `delegate`, `nodes`, `delegated`, `partitions` and `notes` are those of
    msd.runners.runner.Placement.
    """

    component: str
    backend: str
    adapter: str
    precision: Arithmetic
    threads: int | None
    bytes: int
    operations: int
    delegate: str | None
    nodes: int | None
    delegated: int | None
    partitions: int | None
    timings: Timings
    memory: ProcessMemory
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """A file that a backend does not run, and why, as a sentence."""

    component: str
    backend: str
    why: str


@dataclass(frozen=True)
class Drawn:
    """A picture that the real pipeline drew, guided: seconds of it all, of loading too, and of each step.

    `execution` says when networks were in memory (msd.runtime.execution).
    `peak` is the most resident memory of its processes together, in bytes.
    """

    steps: int
    execution: Execution
    seconds: float
    step_seconds: tuple[float, ...]
    peak: int


@dataclass(frozen=True)
class Whole:
    """A picture of `steps` steps with guidance on one backend.

    `encoding`, `step` and `decoding` are computed from the components' typical seconds: text encoding for
    all that guidance needs, a step with its one or two runs of the U-Net, one decoding; no loading.
    """

    backend: str
    steps: int
    encoding: float
    step: float
    decoding: float
    drawn: Drawn | None

    @property
    def seconds(self) -> float:
        """The computed seconds of the whole."""
        return self.encoding + self.steps * self.step + self.decoding


@dataclass(frozen=True)
class Benched:
    """One bundle: as it was named, the hash of its files, by which recipe they are, and what was measured."""

    bundle: str
    model_hash: str
    recipe: str
    measurements: tuple[Measurement, ...]
    wholes: tuple[Whole, ...]
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True)
class Ratio:
    """The first bundle's typical seconds of a component, or of the "whole", divided by the second's."""

    what: str
    backend: str
    seconds: float
    other_seconds: float
    ratio: float


@dataclass(frozen=True)
class Benchmark:
    """One run of `msd bench`: of one bundle, or of two in turn. `phone` describes it, where there was one."""

    command: str
    machine: Machine
    versions: dict[str, str]
    effort: Effort
    bundles: tuple[Benched, ...]
    ratios: tuple[Ratio, ...] = ()
    phone: dict[str, str] | None = None
    format: int = FORMAT


def dump_benchmark(benchmark: Benchmark) -> str:
    """Return the benchmark as JSON, ending in a newline."""
    return schema.dump(benchmark)


def benchmark_schema() -> dict[str, Any]:
    """Return the JSON Schema of a benchmark."""
    return schema.document(Benchmark)


def ratios(first: Benched, second: Benched) -> tuple[Ratio, ...]:
    """Return how the first bundle compares with the second, wherever both were measured alike."""
    ours, theirs = _seconds(first), _seconds(second)
    return tuple(
        Ratio(*key, seconds, theirs[key], round(seconds / theirs[key], 4))
        for key, seconds in ours.items()
        if key in theirs
    )


def _seconds(benched: Benched) -> dict[tuple[str, str], float]:
    parts = {(m.component, m.backend): m.timings.typical for m in benched.measurements}
    return parts | {("whole", whole.backend): whole.seconds for whole in benched.wholes}
