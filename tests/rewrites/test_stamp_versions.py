"""Versions that delegates accept."""

from __future__ import annotations

import pytest

from graph_rewrites.stamp_versions import RANK5_VERSIONS, stamp_versions
from msd.graph.ir import Build, Tensor
from tests.harness import Ints, check_rewrite, check_untouched


@pytest.mark.parametrize("kind", RANK5_VERSIONS)
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (3, 5), ()])
def test_rank_4_and_below(kind: str, shape: tuple[int, ...]) -> None:
    def spell(new: Build, x: Tensor, version: int) -> Tensor:
        return getattr(new, kind)(x, 2.0, version=version)

    check_rewrite(
        [stamp_versions],
        lambda new, x: spell(new, x, RANK5_VERSIONS[kind] + 1),
        lambda new, x: spell(new, x, RANK5_VERSIONS[kind]),
        x=shape,
    )


def test_not_of_rank_5_or_of_integers_or_lower_already() -> None:
    check_untouched([stamp_versions], lambda new, x: new.SUB(x, 2.0, version=3), x=(1, 2, 3, 4, 5))
    check_untouched([stamp_versions], lambda new, x: new.ADD(x, 2, version=2), x=Ints((2, 3)))
    check_untouched([stamp_versions], lambda new, x: new.SUB(x, 2.0, version=1), x=(2, 3))
    check_untouched([stamp_versions], lambda new, x: new.MAXIMUM(x, 2.0, version=3), x=(2, 3))
