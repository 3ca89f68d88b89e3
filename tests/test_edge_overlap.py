import numpy as np
import pytest

from scripts.lab.edge_overlap import overlap


def line(column, height=6, width=11):
    edges = np.zeros((height, width), np.uint8)
    edges[:, column] = 1
    return edges


@pytest.mark.parametrize(
    ("moved", "reach", "expected"), [(0, 0, 1.0), (1, 0, 0.0), (1, 1, 1.0), (2, 1, 0.0), (2, 2, 1.0)]
)
def test_a_line_is_the_same_within_the_reach(moved, reach, expected):
    assert overlap(line(4), line(4 + moved), reach) == expected


def test_without_a_reach_it_is_intersection_over_union():
    one, other = np.random.default_rng(3).random((2, 7, 9)) < 0.4
    assert overlap(one, other, 0) == pytest.approx((one & other).sum() / (one | other).sum())


def test_what_only_one_has_counts_as_much_from_either_side():
    both = line(2) | line(9)
    assert overlap(both, line(3)) == overlap(line(3), both) == pytest.approx(6 / 12)


def test_two_images_without_edges_agree():
    assert overlap(np.zeros((3, 4)), np.zeros((3, 4))) == 1
    assert overlap(np.zeros((6, 11)), line(4)) == 0
