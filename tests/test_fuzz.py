"""Files that once failed a reader are refused now, or read; the driver that finds such files finds them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from msd.errors import MsdError
from scripts.fuzz import CORPUS
from scripts.fuzzing.mutate import flipped
from scripts.fuzzing.readers import READERS, FuzzedReader
from scripts.fuzzing.work import attempt, mutant, run_workers

KEPT = [path for name in READERS for path in sorted((CORPUS / name).glob("*"))]
SECONDS = 0.01
"""For a batch of mutants, which workers always finish."""


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_past_failure_is_none_any_more(path: Path, tmp_path: Path) -> None:
    with suppress(MsdError):
        assert attempt(READERS[path.parent.name], tmp_path, path.read_bytes()) is None


@pytest.mark.parametrize("name", READERS)
def test_a_reader_reads_its_seeds(name: str, tmp_path: Path) -> None:
    """A seed that is refused, such as one of a format that is past, has mutants that are refused as early."""
    refused = []
    for seed in READERS[name].seeds:
        try:
            assert attempt(READERS[name], tmp_path, seed) is None
        except MsdError as error:
            refused.append(str(error))
    assert len(refused) <= len(READERS[name].seeds) // 10, refused


@pytest.mark.parametrize("name", READERS)
def test_mutants_are_the_same_each_time(name: str) -> None:
    mutants = [mutant(name, 7, number) for number in range(20)]
    assert mutants == [mutant(name, 7, number) for number in range(20)]
    assert len(set(mutants)) > 5


def _fail(folder: Path, content: bytes) -> None:
    kinds = {0: ValueError, 1: MemoryError, 2: RecursionError}
    raise kinds[content[0] % 3]("x")


def _refuse(folder: Path, content: bytes) -> None:
    raise MsdError("a\nb\x1b[2J" * 1000)


def _die(folder: Path, content: bytes) -> None:
    if content != b"abc":
        import os

        os._exit(9)


def test_failures_of_each_kind_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = [attempt(FuzzedReader((b"",), flipped, _fail), tmp_path, bytes([i])) for i in range(3)]
    assert [what for what, _ in filter(None, found)] == ["ValueError", "more than 1 GB", "RecursionError"]
    with pytest.raises(MsdError):
        attempt(FuzzedReader((b"",), flipped, _refuse), tmp_path, b"")


def test_a_process_that_dies_is_a_failure_and_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, "deadly", FuzzedReader((b"abc",), flipped, _die))
    monkeypatch.setattr("scripts.fuzzing.work.BATCH", 2)
    trials = run_workers(["deadly"], 0, 1.0, 1)
    assert trials.failures[0].what == "the process dies with 9"
    assert trials.counts["deadly"][2] >= 1


def test_workers_count_what_they_try() -> None:
    trials = run_workers(["device", "recipe"], 0, SECONDS, 1)
    assert all(count > 0 and failed == 0 for count, _, failed in trials.counts.values())


def test_a_mutant_of_nothing_is_something() -> None:
    assert isinstance(flipped(Random(0), [b""]), bytes)
