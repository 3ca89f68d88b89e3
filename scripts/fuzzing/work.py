"""Processes that try mutants within limits of memory and time, and what they find."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from msd.cli.plain import LONGEST, plain
from msd.errors import MsdError
from scripts.fuzzing.readers import READERS, FuzzedReader

MEMORY = 1 << 30
"""Bytes of address space beyond those of a process that has everything imported."""

SECONDS = 10
"""Of processor time, for the machine may be busy; six times as long on the clock is a hang."""

BATCH = 200
KEPT = 40
"""The most failures of one place that are reported."""


class TooLong(BaseException):
    """A reader takes more than `SECONDS`; no reader catches it."""


@dataclass(frozen=True)
class Found:
    """A mutant that a reader fails on: what happens, where, and its content."""

    reader: str
    what: str
    trace: str
    content: bytes

    @property
    def name(self) -> str:
        """The name of its file in the corpus."""
        return hashlib.sha256(self.content).hexdigest()[:12]


@dataclass
class Trials:
    """The mutants tried, refused and failed on by reader, one failure for each place in the code."""

    seconds: float = 0.0
    counts: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    failures: list[Found] = field(default_factory=list)


def attempt(reader: FuzzedReader, folder: Path, content: bytes) -> tuple[str, str] | None:
    """Read `content`; returns what fails and where, None for nothing. Raises MsdError where it is refused."""
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(folder, content)
    except MsdError as error:
        shown = plain(str(error))
        if "\n" in shown or len(shown) > 10 * LONGEST:
            return "an error of several lines", shown
        raise
    except TooLong:
        return f"more than {SECONDS} s", traceback.format_exc(limit=-6)
    except MemoryError:
        return "more than 1 GB", traceback.format_exc(limit=-6)
    except Exception as error:
        return f"{type(error).__name__}", traceback.format_exc(limit=-6)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def _too_long(number: int, frame: object) -> None:
    raise TooLong


def mutant(name: str, seed: int, number: int) -> bytes:
    """Return a mutant of a reader, always the same one."""
    reader = READERS[name]
    return reader.mutate(Random(f"{name} {seed} {number}"), list(reader.seeds))


def run_workers(names: Sequence[str], seed: int, seconds: float, workers: int) -> Trials:
    """Try mutants for `seconds` in several processes; a process that dies is a failure, and is replaced."""
    context, begin, trials = multiprocessing.get_context("fork"), time.monotonic(), Trials()
    crew = [_Worker(context, names, seed * 1000 + i, begin + seconds) for i in range(workers)]
    while any(worker.is_alive for worker in crew):
        time.sleep(0.2)
        for worker in crew:
            worker.collect(trials)
            worker.replace_if_dead(trials)
    trials.seconds = time.monotonic() - begin
    trials.counts = {name: trials.counts[name] for name in names if name in trials.counts}
    return trials


class _Worker:
    """A process that tries mutants, and the place where it says which one it is at."""

    def __init__(self, context: Any, names: Sequence[str], seed: int, end: float) -> None:
        self._context, self._names, self._seed, self._end = context, names, seed, end
        self._at, self._restarts, self._done = (
            context.Array("d", [0, 0, time.monotonic()], lock=False),
            0,
            False,
        )
        self._start(0)

    def _start(self, first: int) -> None:
        self._pipe, child = self._context.Pipe(duplex=False)
        arguments = (self._names, self._seed, first, self._end, child, self._at)
        self._process = self._context.Process(target=_work, args=arguments, daemon=True)
        self._at[2] = time.monotonic()
        self._process.start()
        child.close()

    @property
    def is_alive(self) -> bool:
        return not self._done

    def collect(self, trials: Trials) -> None:
        """Add what the process has sent."""
        try:
            while self._pipe.poll():
                counts, failures = self._pipe.recv()
                if counts is None:
                    self._done = True
                    return
                _add(trials, counts, failures)
        except EOFError:
            pass

    def replace_if_dead(self, trials: Trials) -> None:
        """Note a process that died or hangs, and start another after the mutant that it was at."""
        hangs = time.monotonic() - self._at[2] > 6 * SECONDS
        if self._done or (self._process.is_alive() and not hangs):
            return
        self._process.kill()
        self._process.join()
        self.collect(trials)
        if self._done:
            return
        name, number = self._names[int(self._at[0])], int(self._at[1])
        what = "it hangs" if hangs else f"the process dies with {self._process.exitcode}"
        _add(trials, {name: (1, 0, 1)}, [Found(name, what, "", mutant(name, self._seed, number))])
        self._start(number + 1)


def _add(trials: Trials, counts: dict[str, tuple[int, int, int]], failures: list[Found]) -> None:
    for name, more in counts.items():
        old = trials.counts.get(name, (0, 0, 0))
        trials.counts[name] = (old[0] + more[0], old[1] + more[1], old[2] + more[2])
    known = {(f.reader, f.what, f.trace) for f in trials.failures}
    trials.failures += [f for f in failures if (f.reader, f.what, f.trace) not in known]


def _work(names: Sequence[str], seed: int, first: int, end: float, pipe: Any, at: Any) -> None:
    """Try mutants from number `first` until `end`, and send the counts and the failures of each batch."""
    os.environ["COLUMNS"] = "80"
    for name in names:
        _require_seeds_pass(name)
    most = _address_space() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as scratch:
        numbers = _numbers(names, first, end)
        while batch := [turn for _, turn in zip(range(BATCH), numbers, strict=False)]:
            pipe.send(_tried(batch, names, seed, Path(scratch), at))
    pipe.send((None, None))


def _numbers(names: Sequence[str], first: int, end: float) -> Iterator[tuple[int, int]]:
    """Yield a reader's position in `names` and the number of its next mutant, each by its share."""
    number, due = first, [0.0] * len(names)
    while time.monotonic() < end:
        for i, name in enumerate(names):
            due[i] += READERS[name].share if len(names) > 1 else 1.0
            if due[i] >= 1:
                due[i] -= 1
                yield i, number
        number += 1


def _tried(
    batch: Sequence[tuple[int, int]], names: Sequence[str], seed: int, scratch: Path, at: Any
) -> tuple[dict[str, tuple[int, int, int]], list[Found]]:
    counts: dict[str, tuple[int, int, int]] = {}
    failures: dict[tuple[str, str], Found] = {}
    for i, number in batch:
        at[0], at[1], at[2] = i, number, time.monotonic()
        name, content = names[i], mutant(names[i], seed, number)
        tried, refused, failed = counts.get(name, (0, 0, 0))
        try:
            problem = attempt(READERS[name], scratch, content)
        except MsdError:
            problem, refused = None, refused + 1
        if problem:
            place = (name, problem[0] + problem[1])
            failures.setdefault(place, Found(name, *problem, content))
        counts[name] = (tried + 1, refused, failed + bool(problem))
    return counts, [_shortened(failure, scratch) for failure in failures.values()]


def _shortened(failure: Found, scratch: Path) -> Found:
    """Return the failure with as much of its content cut off as keeps it, found in two seconds."""
    end, content, size = time.monotonic() + 2, failure.content, len(failure.content) // 2
    if failure.what.startswith("more"):
        return failure
    while size and time.monotonic() < end:
        for begin in range(0, len(content), size):
            shorter = content[:begin] + content[begin + size :]
            if time.monotonic() < end and _fails_so(failure, scratch, shorter):
                content = shorter
                break
        else:
            size //= 2
    return Found(failure.reader, failure.what, failure.trace, content)


def _fails_so(failure: Found, scratch: Path, content: bytes) -> bool:
    try:
        problem = attempt(READERS[failure.reader], scratch, content)
    except MsdError:
        return False
    return problem == (failure.what, failure.trace)


def _require_seeds_pass(name: str) -> None:
    """Read a reader's seeds once, so that all it needs is imported before memory is bounded."""
    with TemporaryDirectory() as folder:
        for seed in READERS[name].seeds:
            try:
                problem = attempt(READERS[name], Path(folder), seed)
            except MsdError:
                continue
            if problem:
                raise RuntimeError(f"a seed of {name} fails: {problem[0]}\n{problem[1]}")


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
