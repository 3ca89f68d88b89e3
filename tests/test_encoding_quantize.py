"""Real numbers as integers with a scale: what they stand for, and that ai-edge-quantizer's are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from msd.compress.encoding.quantize import RANGES, SMALLEST_BOUND, encoder, grid_scale
from msd.graph.ir import weights as weights_module
from msd.graph.ir.weights import Weights
from tests.on_cpu import normal

Array = np.ndarray[Any, Any]

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
ROWS = arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5)), elements=FLOATS)
STORES = ("int8", "int4")


@settings(max_examples=200)
@given(ROWS, st.sampled_from(STORES))
def test_every_value_is_within_half_a_step(values: Array, store: str) -> None:
    stored, scale = encoder(store)(Weights.of(values))
    assert (stored.dtype, scale.dtype) == (np.int8, np.float32)
    assert (stored.shape, scale.shape) == (values.shape, values.shape[:1])
    assert np.abs(stored).max() <= RANGES[store][1]
    step = scale.astype(np.float64).reshape(-1, 1, 1)
    assert (np.abs(values - step * stored) <= step * 0.5 * (1 + 1e-5)).all()


@settings(max_examples=200)
@given(ROWS, st.sampled_from(STORES))
def test_the_largest_of_a_row_is_stored_as_the_largest(values: Array, store: str) -> None:
    largest = RANGES[store][1]
    stored, scale = encoder(store)(Weights.of(values))
    for row, integers, step in zip(values, stored, scale, strict=True):
        amax = max(np.abs(row).max(), np.float32(SMALLEST_BOUND))
        assert step == amax / np.float32(largest)
        if amax > SMALLEST_BOUND:
            assert np.abs(integers).max() == largest


@settings(max_examples=200)
@given(ROWS, st.sampled_from(STORES))
def test_one_scale_is_that_of_the_largest_of_all(values: Array, store: str) -> None:
    stored, scale = encoder(store, "tensor")(Weights.of(values))
    alone = encoder(store)(Weights.of(values.reshape(1, -1)))
    assert scale.shape == (1,)
    assert np.array_equal(scale, alone[1])
    assert np.array_equal(stored, alone[0].reshape(values.shape))


def squared_error(values: Array, stored: Array, scale: Array) -> Array:
    real = stored.astype(np.float64) * scale.reshape(-1, *[1] * (values.ndim - 1))
    return ((real - values) ** 2).reshape(len(scale), -1).sum(axis=1)


@settings(max_examples=200)
@given(arrays(np.float32, (3, 17), elements=st.floats(-9, 9, width=32)), st.sampled_from(STORES))
def test_the_best_clip_is_no_worse_than_none(values: Array, store: str) -> None:
    best = squared_error(values, *encoder(store, algorithm="mse")(Weights.of(values)))
    plain = squared_error(values, *encoder(store)(Weights.of(values)))
    assert (best <= plain * (1 + 1e-5) + 1e-12).all()


@pytest.mark.parametrize(("outlier", "times"), [(3.5, 1.1), (16, 4)])
def test_the_best_clip_gives_an_outlier_up(outlier: float, times: float) -> None:
    """4096 normal numbers, one of them so many standard deviations large."""
    values = normal(1, 4096)
    values[0, 7] = outlier
    best = squared_error(values, *encoder("int4", algorithm="mse")(Weights.of(values)))
    plain = squared_error(values, *encoder("int4")(Weights.of(values)))
    assert best[0] * times < plain[0]


ROUNDED = arrays(np.int8, (4, 70), elements=st.integers(-8, 7))
SCALES = st.lists(st.floats(2**-9, 8, width=32), min_size=4, max_size=4)


def stored_as(values: Array, dtype: str) -> Array:
    """Return what a checkpoint of this dtype says the values are."""
    return torch.from_numpy(values).to(getattr(torch, dtype)).float().numpy()


@settings(max_examples=300)
@given(
    ROUNDED,
    SCALES,
    st.sampled_from(["channel", "tensor"]),
    st.sampled_from(["float32", "float16", "bfloat16"]),
)
def test_what_was_rounded_to_int4_before_stays(
    integers: Array, scales: list[float], granularity: str, dtype: str
) -> None:
    """Whatever its largest integer is, although the first clips stand for other steps."""
    values = integers * np.float32(scales if granularity == "channel" else scales[:1])[:, None]
    stored, found = encoder("int4", granularity, "mse")(Weights.of(stored_as(values, dtype)))
    again = stored * (found[:, None] if granularity == "channel" else found)
    assert np.allclose(
        again, values, rtol={"float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}[dtype], atol=0
    )


@pytest.mark.parametrize("moved", [3, 69])
def test_one_weight_between_two_integers_makes_a_row_an_ordinary_one(moved: int) -> None:
    values = np.tile(np.arange(-6, 8, dtype=np.float32), (2, 5))
    values[0, moved] += 0.06
    assert grid_scale(values, "int4").tolist() == [0, 1]
    assert not grid_scale(values, "int8").any()


@pytest.mark.parametrize("algorithm", ["min-max", "mse", "rms"])
@pytest.mark.parametrize("granularity", ["channel", "tensor"])
@pytest.mark.parametrize("block", [1, 70, 3 * 33, 1 << 20])
def test_blocks_of_rows_make_the_same_integers(
    algorithm: str, granularity: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = Weights.of(normal(3, 11, 7)).transpose((2, 0, 1))
    whole = encoder("int4", granularity, algorithm)(values)
    monkeypatch.setattr(weights_module, "BLOCK", block)
    parts = encoder("int4", granularity, algorithm)(values)
    assert all(map(np.array_equal, whole, parts))


@pytest.mark.parametrize("algorithm", ["min-max", "mse", "rms"])
def test_zeros_stay_zeros(algorithm: str) -> None:
    for store in STORES:
        stored, scale = encoder(store, algorithm=algorithm)(Weights.of(np.zeros((2, 5), np.float32)))
        assert not stored.any()
        assert (scale >= np.finfo(np.float32).tiny).all()


@pytest.mark.parametrize("tiny", [1e-45, 1e-40, 1.2e-38])
def test_rows_too_small_for_a_scale_stay_small(tiny: float) -> None:
    values = np.array([[tiny, -tiny / 3]], np.float32)
    stored, scale = encoder("int8")(Weights.of(values))
    assert np.abs(stored * scale[:, None] - values).max() <= SMALLEST_BOUND / 127


def test_the_input_is_left_alone() -> None:
    values = normal(3, 5)
    values.flags.writeable = False
    for algorithm in ("min-max", "mse", "rms"):
        encoder("int8", algorithm=algorithm)(Weights.of(values))
    assert encoder("int8")(Weights.of(values.astype(np.float16)))[1].dtype == np.float32
