"""A timeline of loading and running networks, and of memory, recorded while images are generated.

with TimelineRecorder("pipelined") as recorder, Pipeline(bundle, recorder=recorder) as pipeline:
    pipeline.generate("a red circle")
recorder.timeline.peak
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import IO, Literal

from msd.errors import BadReport
from msd.files import schema
from msd.gpu.phases import Phase
from msd.run.runners import memory_sampler

FORMAT = 1
STEADY = 1 << 20
Activity = Literal["load", "run", "unload"]
Watch = Callable[[str, Activity], AbstractContextManager[list[Phase]]]
"""Returns the `with` block around a component's activity, which adds the parts that it knows of it."""


def unwatched(component: str, activity: Activity) -> AbstractContextManager[list[Phase]]:
    """Record nothing."""
    return nullcontext([])


@dataclass(frozen=True)
class Event:
    """An activity of a component from `begin` to `end`, in seconds since the recording began.

    `parts`: what loading on WebGPU was made of. Their seconds may overlap, and begin when the process has
    started. "cache" is there instead of "read" and "compile" where the program was compiled before.
    """

    component: str
    activity: Activity
    begin: float
    end: float
    parts: tuple[Phase, ...] = ()


@dataclass(frozen=True)
class Sample:
    """Resident bytes `at` seconds since the recording began: of this process, and of all its children."""

    at: float
    process: int
    children: int

    @property
    def bytes(self) -> int:
        """Resident bytes of all processes."""
        return self.process + self.children


@dataclass(frozen=True)
class Timeline:
    """A recording: events in the order they ended, and memory in the order of time.

    Memory is empty on systems without Linux's /proc. A page that two processes share counts twice.
    """

    execution: str
    seconds: float
    events: tuple[Event, ...]
    memory: tuple[Sample, ...]
    format: int = FORMAT

    @property
    def peak(self) -> int:
        """The most resident bytes at any one time, 0 without samples."""
        return max((sample.bytes for sample in self.memory), default=0)


def load_timeline(path: Path) -> Timeline:
    """Return the timeline in a JSON file; raises BadReport for one that is missing, newer, or invalid."""
    return schema.require(BadReport, Timeline, path, FORMAT, "a timeline")


class TimelineRecorder:
    """Records while its `with` block runs; `execution` names the timeline."""

    def __init__(self, execution: str) -> None:
        self.execution = execution
        self._start = perf_counter()
        self._ended: float | None = None
        self._events: list[Event] = []
        self._memory: tuple[Sample, ...] = ()
        self._samples: IO[str] | None = None
        self._sampler: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> TimelineRecorder:
        """Begin to sample memory, from a process of its own.

        A thread would miss the peak: TensorFlow Lite holds Python's lock while it loads a file.
        """
        self._start = perf_counter()
        self._samples = tempfile.TemporaryFile("w+")
        command = [sys.executable, "-I", "-S", memory_sampler.__file__]
        self._sampler = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=self._samples,
            process_group=0,  # a terminal's Ctrl-C is for us: its traceback would be beside our message
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = perf_counter()
        assert self._sampler is not None, "a recording that ends has begun"
        assert self._samples is not None
        self._sampler.communicate()
        with self._samples as samples:
            samples.seek(0)
            self._memory = self._samples_in(samples)

    @contextmanager
    def watch(self, component: str, activity: Activity) -> Iterator[list[Phase]]:
        """Record the `with` block as an event, even if it fails."""
        start, parts = perf_counter(), list[Phase]()
        try:
            yield parts
        finally:
            begin, end = (round(at - self._start, 4) for at in (start, perf_counter()))
            since = [Phase(p.name, round(p.begin - self._start, 4), round(p.seconds, 4)) for p in parts]
            self._events.append(Event(component, activity, begin, end, parts=tuple(since)))

    @property
    def timeline(self) -> Timeline:
        """The recording so far; it has memory once the recording has ended."""
        return Timeline(self.execution, round(self._seconds, 4), tuple(self._events), self._memory)

    @property
    def _seconds(self) -> float:
        return (self._ended or perf_counter()) - self._start

    def _samples_in(self, lines: Iterable[str]) -> tuple[Sample, ...]:
        rows = (line.split() for line in lines)
        samples = [Sample(round(float(r[0]) - self._start, 4), int(r[1]), int(r[2])) for r in rows]
        return without_plateaus([sample for sample in samples if sample.at <= self._seconds])


def without_plateaus(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Return samples without those that differ from both neighbours by less than `STEADY` bytes.

    Neighbours are the last sample that remains and the next one, so that slow growth remains visible.
    """
    remaining: list[Sample] = []
    for i, sample in enumerate(samples):
        neighbours = [*remaining[-1:], *samples[i + 1 : i + 2]]
        changes = [abs(sample.bytes - other.bytes) for other in neighbours]
        if len(neighbours) < 2 or max(changes) >= STEADY:
            remaining.append(sample)
    return tuple(remaining)
