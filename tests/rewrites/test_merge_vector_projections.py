"""Projections of one vector."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from graph_rewrites.merge_vector_projections import merge_vector_projections
from msd.ir import Build, Tensor
from msd.prediction.device import Device
from msd.rewrite import Target
from msd.rewrite.spelling import spelling_of
from tests.harness import Spell, check_rewrite, check_untouched, conv, normal

MERGED = Target(spelling=spelling_of("", {"vector_projections": "merged"}))


def projection(new: Build, x: Tensor, outputs: int, seed: int, **attrs: Any) -> Tensor:
    w, b = new.const(normal(outputs, 1, 1, x.shape[3], seed=seed)), new.const(normal(outputs, seed=seed + 50))
    return new.CONV_2D(x, w, b, **{"stride_h": 1, "stride_w": 1, **attrs})


def sums(new: Build, parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for factor, part in enumerate(parts[1:], 2):
        total = new.ADD(total, new.MUL(part, float(factor)))
    return total


def of_one_place(count: int, outputs: int = 6, **attrs: Any) -> Spell:
    return lambda new, x: sums(new, [projection(new, x, outputs, seed, **attrs) for seed in range(count)])


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("activation", ["NONE", "RELU"])
def test_projections_of_a_vector_become_one(batch: int, activation: str) -> None:
    def after(new: Build, x: Tensor) -> Tensor:
        every = conv(new, x, 18, fused_activation_function=activation)
        return sums(new, new.SPLIT(3, every, 3))

    before = of_one_place(3, fused_activation_function=activation)
    check_rewrite([merge_vector_projections], before, after, target=MERGED, x=(batch, 1, 1, 5))


def test_each_number_of_outputs_has_a_convolution_of_its_own() -> None:
    """SPLIT gives equal parts."""

    def before(new: Build, x: Tensor) -> Tensor:
        wide, narrow = ([projection(new, x, n, seed) for seed in (n, n + 1)] for n in (8, 4))
        alone = projection(new, x, 12, 7)
        return new.ADD(new.CONCATENATION(sums(new, wide), sums(new, narrow), axis=3), alone)

    def after(new: Build, x: Tensor) -> Tensor:
        wide, narrow = (new.SPLIT(3, conv(new, x, 2 * n), 2) for n in (8, 4))
        alone = conv(new, x, 12)
        return new.ADD(new.CONCATENATION(sums(new, wide), sums(new, narrow), axis=3), alone)

    check_rewrite([merge_vector_projections], before, after, target=MERGED, x=(1, 1, 1, 5))


def test_as_many_as_a_device_holds() -> None:
    """Twelve outputs are three slices of weights, as many as the texture is wide."""
    small = replace(MERGED, device=Device("small", image2d_width=3))

    def after(new: Build, x: Tensor) -> Tensor:
        return sums(new, [part for _ in range(2) for part in new.SPLIT(3, conv(new, x, 12), 2)])

    check_rewrite([merge_vector_projections], of_one_place(4), after, target=small, x=(1, 1, 1, 5))


@pytest.mark.parametrize("shape", [(1, 1, 2, 5), (1, 2, 1, 5)])
def test_several_places_stay(shape: tuple[int, ...]) -> None:
    check_untouched([merge_vector_projections], of_one_place(3), target=MERGED, x=shape)


def test_one_projection_stays() -> None:
    check_untouched([merge_vector_projections], of_one_place(1), target=MERGED, x=(1, 1, 1, 5))


def test_a_result_of_the_graph_stays() -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(projection(new, x, 6, seed) for seed in range(2))

    check_untouched([merge_vector_projections], before, target=MERGED, x=(1, 1, 1, 5))
