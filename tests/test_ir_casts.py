"""Casts are NumPy's, to the bit, for every number that float16 has, in any order of axes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from msd.graph.ir.casts import cast
from tests.on_cpu import normal

EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = EVERY[np.isfinite(EVERY)]


@pytest.mark.parametrize("values", [EVERY, FINITE, EVERY[:0]], ids=["all", "finite", "none"])
def test_every_half_is_widened_as_numpy_does(values: np.ndarray[Any, Any]) -> None:
    wide = cast(values, np.dtype(np.float32))
    assert wide.dtype == np.float32
    assert wide.tobytes() == values.astype(np.float32).tobytes()


def test_negative_zero_and_the_smallest_numbers_stay() -> None:
    smallest = np.array([-0.0, 2.0**-24, -(2.0**-24), 2.0**-14, 65504], np.float16)
    wide = cast(smallest, np.dtype(np.float32))
    assert wide.tolist() == [0, 2.0**-24, -(2.0**-24), 2.0**-14, 65504]
    assert np.signbit(wide).tolist() == [True, False, True, False, False]


@pytest.mark.parametrize("stored", ["float16", "float32", "float64", ml_dtypes.bfloat16, "int8"])
@pytest.mark.parametrize("wanted", ["float32", "float16"])
def test_rearranged_arrays_become_contiguous_copies(stored: Any, wanted: str) -> None:
    values = normal(3, 5, 2, 7).astype(stored)
    seen = values.transpose(2, 0, 3, 1)[:, 1:]
    changed = cast(seen, np.dtype(wanted))
    assert changed.flags.c_contiguous
    assert changed.tobytes() == seen.astype(wanted, order="C").tobytes()
    assert not np.shares_memory(changed, values)
