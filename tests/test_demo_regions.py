"""Regions of masks against scikit-image's, cell by cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.models.demo.regions import filled, label

SPIRAL = """
#########
........#
#######.#
#.....#.#
#.###.#.#
#.#...#.#
#.#####.#
#.......#
#########
"""


def mask_of(text: str) -> np.ndarray:
    return np.array([[cell == "#" for cell in line] for line in text.split()])


@given(st.tuples(st.integers(1, 23), st.integers(1, 31)), st.floats(0.05, 0.95), st.integers(0, 2**32 - 1))
def test_regions_are_those_of_scikit_image(shape: tuple[int, int], density: float, seed: int) -> None:
    from skimage.measure import label as peer
    from skimage.segmentation import clear_border

    mask = np.random.default_rng(seed).random(shape) < density
    assert np.array_equal(label(mask), peer(mask, connectivity=1))
    holes = clear_border(peer(~mask, connectivity=1)) > 0
    assert np.array_equal(filled(mask), mask | holes)


def test_a_spiral_is_one_region_that_joins_late_and_has_no_hole() -> None:
    mask = mask_of(SPIRAL)
    assert set(np.unique(label(mask))) == {0, 1}
    assert np.array_equal(filled(mask), mask)


def test_a_ring_has_a_hole_and_a_corner_does_not_join() -> None:
    ring = mask_of("#####\n#...#\n#.#.#\n#...#\n#####\n")
    assert label(ring).max() == 2
    assert filled(ring).all()
    assert label(mask_of("#.\n.#\n")).tolist() == [[1, 0], [0, 2]]


@pytest.mark.parametrize("value", [True, False])
def test_a_mask_of_one_value_is_one_region_or_none(value: bool) -> None:
    mask = np.full((3, 5), value)
    assert (label(mask) == value).all()
    assert np.array_equal(filled(mask), mask)
