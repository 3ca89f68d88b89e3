"""A process that is killed at any file-system call leaves the old output or the new one, and no debris."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.kills import Counts, survive
from tests.publications import CASES

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def young_process() -> Iterator[Executor]:
    """A process with little memory and one thread: each case forks it, and a fork takes longer with more."""
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        yield executor


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory, where there is such a file system: each new state is copied twice."""
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power cut"])
@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_an_end_at_every_call(number: int, power: bool, young_process: Executor, place: Path) -> None:
    counts = young_process.submit(survive_case, number, power, place).result()
    assert counts.kills == counts.old + counts.new > 10
    assert counts.old, "no kill came before the new output counted"
    assert counts.new, "no kill came after the new output counted"


def survive_case(number: int, power: bool, place: Path) -> Counts:
    """Return what `survive` does of the case with this number, which cannot travel to another process."""
    return survive(CASES[number], place, power)
