"""A process that is killed at any file-system call leaves the old output or the new one, and no debris."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.kills import Case, survive
from tests.publications import CASES

MEMORY = Path("/dev/shm")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory, where there is such a file system: each kill copies all files twice."""
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power cut"])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_an_end_at_every_call(case: Case, power: bool, place: Path) -> None:
    counts = survive(case, place, power)
    assert counts.kills == counts.old + counts.new > 10
    assert counts.old, "no kill came before the new output counted"
    assert counts.new, "no kill came after the new output counted"
