"""What naga and Tint do not both take, or not alike, stands in no WGSL text of the kernels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import msd.gpu

SOURCES = sorted(Path(msd.gpu.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_text_is_for_both_compilers(path: Path) -> None:
    """naga knows no `enable subgroups;`; 3.4028235e38 rounds beyond f32 in one; tanh of 89 is NaN on some.

    Matrix tiles are for Dawn alone, whose compiler is Tint.
    """
    text = path.read_text("utf-8")
    asks = re.search(r"enable\s+subgroups", text)
    assert not asks or path.name == "matrix_tile.py", "naga 0.32 refuses `enable subgroups;`"
    assert not re.search(r"3\.402823(5|47|466)\d*e\+?38", text), "Tint refuses numbers beyond the largest f32"
    assert all("clamp(" in line for line in text.splitlines() if re.search(r"\btanh\(", line))
