"""Rounding that compensates its errors: against its definition, and against every other rounding."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.compress.encoding.quantize import RANGES, encoder
from msd.compress.pruning.layer import rows, some_positions, some_rows
from msd.compress.rounding import compensate, moments
from msd.compress.rounding.compensate import InputPart, Rounded, compensated
from msd.compress.rounding.moments import Moments
from msd.graph.ir import Build, Op, Tensor
from msd.graph.ir.weights import Weights
from tests.on_cpu import normal


def inputs(samples: int, size: int, seed: int) -> np.ndarray:
    """Samples that depend on each other, and have a mean."""
    mixed = normal(samples, size, seed=seed) @ normal(size, size, seed=seed + 1)
    return np.asarray(mixed + normal(size, seed=seed + 2), np.float64)


def part_of(z: np.ndarray) -> InputPart:
    centred = z - z.mean(axis=0)
    return InputPart(np.arange(z.shape[1]), centred.T @ centred / len(z), float(np.mean(z**2)))


def error(z: np.ndarray, weights: np.ndarray, rounded: Rounded) -> float:
    """Return the mean square of what the layer's outputs lack, its bias corrected."""
    missed = z @ (weights - rounded.values).T - rounded.mean
    return float(np.mean(missed**2))


def inverse_form(weights: np.ndarray, scale: np.ndarray, store: str, part: InputPart) -> np.ndarray:
    """Return GPTQ's integers as its paper computes them: with the inverse of the damped matrix."""
    low, high = RANGES[store]
    damped = part.covariance + np.eye(len(part.inputs)) * compensate.DAMPING * part.mean_square
    upper = np.linalg.cholesky(np.linalg.inv(damped)).T
    left, found = weights.astype(np.float64).copy(), np.zeros(weights.shape)
    for j in range(weights.shape[1]):
        found[:, j] = np.clip(np.rint(left[:, j] / scale), low, high)
        lost = (left[:, j] - scale * found[:, j]) / upper[j, j]
        left[:, j:] -= lost[:, None] * upper[j, j:]
    return found


@pytest.mark.parametrize("store", ["int8", "int4"])
@pytest.mark.parametrize(("outputs", "size"), [(3, 7), (5, 64), (4, 65), (2, 150)])
def test_it_is_gptq(store: str, outputs: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(compensate.CLIPS, store, (1.0,))
    weights, part = normal(outputs, size, seed=3), part_of(inputs(400, size, 4))
    found = compensated(weights, [part], np.zeros(size), store)
    wanted = inverse_form(weights, found.scale.astype(np.float64), store, part)
    assert np.mean(found.stored != wanted) < 0.002


@pytest.mark.parametrize("store", ["int8", "int4"])
def test_it_beats_rounding_each_weight(store: str) -> None:
    """On the inputs it was given, in the mean by far; a single row of few weights may lose."""
    ratios = []
    for seed in range(0, 200, 10):
        z, weights = inputs(300, 24, seed), normal(4, 24, seed=seed + 3)
        found = compensated(weights, [part_of(z)], z.mean(axis=0), store)
        encode = encoder(store, "channel", "mse" if store == "int4" else "min-max")
        integers, scale = encode(Weights.of(weights))
        missed = weights - integers * scale[:, None]
        plain = Rounded(integers, scale, missed @ z.mean(axis=0))
        ratios.append(error(z, weights, found) / error(z, weights, plain))
    assert np.mean(ratios) < 0.65, ratios


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["int8", "int4"]), st.integers(1, 6), st.integers(2, 40), st.integers(0, 99))
def test_no_row_loses_more_than_a_step_for_each_weight(
    store: str, outputs: int, size: int, seed: int
) -> None:
    z, weights = inputs(300, size, seed), normal(outputs, size, seed=seed + 3)
    found = compensated(weights, [part_of(z)], z.mean(axis=0), store)
    pivots = np.diag(part_of(z).factor())
    most = np.sum(np.square(pivots)) * np.square(found.scale.astype(np.float64)) * 4
    clipped = np.abs(found.stored).max(axis=1) >= RANGES[store][1]
    missed = (z - z.mean(axis=0)) @ (weights - found.values).T
    assert (np.mean(np.square(missed), axis=0) <= most)[~clipped].all()


def test_it_finds_nearly_the_best_of_all_roundings() -> None:
    z, weights = inputs(200, 4, 9), normal(1, 4, seed=10)
    found = compensated(weights, [part_of(z)], z.mean(axis=0), "int4")
    best = np.inf
    for integers in product(range(-8, 8), repeat=4):
        stored = np.array([integers], np.int8)
        missed = weights - stored * found.scale[:, None]
        best = min(best, error(z, weights, Rounded(stored, found.scale, missed @ z.mean(axis=0))))
    assert error(z, weights, found) < 3 * best


def test_the_mean_error_goes_to_the_bias() -> None:
    z, weights = inputs(500, 12, 1) + 5, normal(3, 12, seed=2)
    found = compensated(weights, [part_of(z)], z.mean(axis=0), "int4")
    lacking = (z @ (weights - found.values).T).mean(axis=0)
    assert np.allclose(found.mean, lacking, atol=1e-5)
    assert np.abs(lacking).max() > 1e-3


@pytest.mark.parametrize("store", ["int8", "int4"])
def test_integers_are_within_their_range_and_constant_inputs_do_no_harm(store: str) -> None:
    weights = normal(4, 9, seed=5) * 100
    weights[1] = 0
    z = np.ones((50, 9))
    z[:, 3] = 0
    found = compensated(weights, [part_of(z)], z.mean(axis=0), store)
    low, high = RANGES[store]
    assert low <= found.stored.min()
    assert found.stored.max() <= high
    assert np.isfinite(found.values).all()
    assert not found.values[1].any()


def test_one_scale_for_a_layer() -> None:
    z, weights = inputs(300, 10, 1), normal(6, 10, seed=2) * np.arange(1, 7)[:, None]
    found = compensated(weights, [part_of(z)], z.mean(axis=0), "int4", per_row=False)
    assert found.scale.shape == (1,)
    assert found.values.shape == weights.shape
    own = compensated(weights, [part_of(z)], z.mean(axis=0), "int4")
    assert error(z, weights, own) < error(z, weights, found)


def test_rows_in_pieces_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    z, weights = inputs(300, 20, 1), normal(7, 20, seed=2)
    whole = compensated(weights, [part_of(z)], z.mean(axis=0), "int4")
    monkeypatch.setattr(compensate, "LARGEST", 500)
    pieces = compensated(weights, [part_of(z)], z.mean(axis=0), "int4")
    assert np.array_equal(whole.stored, pieces.stored)
    assert np.array_equal(whole.scale, pieces.scale)


def convolution(channels: int, stride: int, padding: str) -> Op:
    new, x = Build(), Tensor("x", (1, 6, 5, channels))
    kernel = new.const(normal(4, 3, 2, channels), "kernel")
    bias = np.zeros(4, np.float32)
    y = new.CONV_2D(x, kernel, bias, padding=padding, stride_h=stride, stride_w=stride)
    return y.maker


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("largest", [4096, 20])
def test_moments_are_those_of_the_patches(
    padding: str, stride: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moments, "LARGEST", largest)
    op, values = convolution(7, stride, padding), [normal(1, 6, 5, 7, seed=s) + 2 for s in range(3)]
    sums = Moments(6, 7)
    for value in values:
        sums.add(rows(op, value))
    z = np.concatenate([rows(op, value) for value in values]).astype(np.float64)
    assert np.allclose(sums.mean, z.mean(axis=0), atol=1e-6)
    wanted = np.cov(z.T, bias=True)
    parts = sums.parts_of(centred=True)
    assert len(parts) == (1 if largest == 4096 else 3)
    assert np.array_equal(np.sort(np.concatenate([part.inputs for part in parts])), np.arange(42))
    for part in parts:
        assert len(part.inputs) % 6 == 0
        assert np.allclose(part.covariance, wanted[np.ix_(part.inputs, part.inputs)], atol=1e-5)


@pytest.mark.parametrize("most", [1, 7, 30, 31])
def test_some_rows_are_rows_of_the_patches_in_their_order(most: int) -> None:
    op, value = convolution(3, 1, "SAME"), normal(1, 6, 5, 3)
    some, every = some_rows(op, value, most, seed=4), rows(op, value)
    positions = some_positions(len(every), most, seed=4)
    assert len(positions) == min(most, 30)
    assert np.array_equal(positions, np.unique(positions))
    assert np.array_equal(some, every[positions])
    assert np.array_equal(some_positions(30, 30, seed=4), np.arange(30))


@pytest.mark.parametrize("per_row", [True, False])
def test_weights_that_are_rounded_already_stay(per_row: bool) -> None:
    """Whatever their largest integer is, and although other scales are smaller steps."""
    random = np.random.default_rng(3)
    z, integers = inputs(200, 30, seed=5), random.integers(-8, 8, (9, 30))
    integers[0] = np.clip(integers[0], -3, 3)
    integers[1] = -8
    scale = random.uniform(0.01, 0.03, (9, 1)) if per_row else np.full((9, 1), 0.02)
    weights = (integers * scale).astype(np.float32)
    rounded = compensated(weights, [part_of(z)], z.mean(axis=0), "int4", per_row)
    assert np.allclose(rounded.values, weights, rtol=1e-6)
    assert np.allclose(rounded.mean, 0, atol=1e-6)
