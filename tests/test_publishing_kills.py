"""A process that is killed at any file-system call leaves the old output or the new one, and no debris."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kills import Case, survive
from tests.publications import CASES


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power cut"])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_an_end_at_every_call(case: Case, power: bool, tmp_path: Path) -> None:
    counts = survive(case, tmp_path, power)
    assert counts.kills == counts.old + counts.new > 10
    assert counts.old, "no kill came before the new output counted"
    assert counts.new, "no kill came after the new output counted"
