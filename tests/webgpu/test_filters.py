from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.gpu.gpu import Gpu
from msd.gpu.kernels.filters import interleave, pack_filter
from msd.gpu.operations import Stored

STANDARD = Gpu()
RNG = np.random.default_rng(3)


def _loaded(array: np.ndarray, stored: Stored, gpu: Gpu = STANDARD) -> np.ndarray:
    rows = array[0].size
    filter_ = pack_filter(lambda: array, stored, rows, len(array), None, gpu, "w")
    assert filter_.values.load is not None
    packed = filter_.values.load()
    assert packed.size == filter_.values.count
    return packed


@settings(max_examples=25, deadline=None)
@given(outputs=st.integers(1, 13), rows=st.integers(1, 9))
def test_int8_words_have_four_columns_lowest_byte_first(outputs: int, rows: int) -> None:
    array = RNG.integers(-128, 128, (outputs, rows)).astype(np.int8)
    packed = _loaded(array, "int8")
    unpacked = packed.view(np.int8).reshape(rows, -1)
    np.testing.assert_array_equal(unpacked[:, :outputs], array.T)
    assert packed.dtype == np.uint32
    assert unpacked.shape[1] == -(-outputs // 4) * 4
    assert not unpacked[:, outputs:].any()


@settings(max_examples=25, deadline=None)
@given(outputs=st.integers(1, 19), rows=st.integers(1, 5))
def test_int4_words_have_eight_columns_lowest_bits_first(outputs: int, rows: int) -> None:
    array = RNG.integers(-8, 8, (outputs, rows)).astype(np.int8)
    words = _loaded(array, "int4").reshape(rows, -1)
    for column in range(words.shape[1] * 8):
        bits = (words[:, column // 8] >> np.uint32(4 * (column % 8))) & 15
        signed = (bits.astype(np.int32) ^ 8) - 8
        expected = array[column] if column < outputs else np.zeros(rows)
        np.testing.assert_array_equal(signed, expected)


def test_rows_are_taps_then_channels() -> None:
    ohwi = RNG.standard_normal((6, 3, 2, 5)).astype(np.float32)
    packed = _loaded(ohwi, "f32").reshape(3, 2, 5, 8)
    np.testing.assert_array_equal(packed[..., :6], ohwi.transpose(1, 2, 3, 0))
    assert not packed[..., 6:].any()


@pytest.mark.parametrize("half", [False, True])
def test_halves_are_f16_or_pairs_in_words(half: bool) -> None:
    array = RNG.standard_normal((7, 3)).astype(np.float32)
    packed = _loaded(array, "f16", Gpu(half=half))
    assert packed.dtype == (np.float16 if half else np.uint32)
    np.testing.assert_array_equal(packed.view(np.float16).reshape(3, 8)[:, :7], array.T.astype(np.float16))


def test_large_filters_are_transposed_in_blocks() -> None:
    array = RNG.integers(-128, 128, (643, 2051)).astype(np.int8)
    packed = _loaded(array, "int8").view(np.int8).reshape(2051, 644)
    np.testing.assert_array_equal(packed[:, :643], array.T)


def test_nothing_is_read_before_it_is_uploaded() -> None:
    def load() -> np.ndarray:
        raise AssertionError("read too early")

    filter_ = pack_filter(load, "int8", 6, 5, np.ones(5, np.float32), Gpu(), "w")
    assert filter_.values.count == 12
    assert filter_.scale is not None
    assert filter_.scale.count == 5


def test_interleaves_blocks_of_four() -> None:
    values, gates = np.arange(8), np.arange(100, 108)
    expected = [0, 1, 2, 3, 100, 101, 102, 103, 4, 5, 6, 7, 104, 105, 106, 107]
    np.testing.assert_array_equal(interleave(values, gates), expected)
    matrices = interleave(values[:, None] * [1, 2], gates[:, None] * [1, 2])
    np.testing.assert_array_equal(matrices, np.asarray(expected)[:, None] * [1, 2])


def test_refusals() -> None:
    array = np.zeros((4, 2), np.int8)
    with pytest.raises(ValueError, match="int2"):
        pack_filter(lambda: array, "int2", 2, 4, None, Gpu(), "w")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="4 outputs, and 3 scales"):
        pack_filter(lambda: array, "int8", 2, 4, np.ones(3, np.float32), Gpu(), "w")
    with pytest.raises(ValueError, match="5 outputs of 2 weights"):
        _ = pack_filter(lambda: array, "int8", 2, 5, None, Gpu(), "w").values.load()  # type: ignore[misc]
    with pytest.raises(ValueError, match="do not pair"):
        interleave(np.zeros(6), np.zeros(6))
