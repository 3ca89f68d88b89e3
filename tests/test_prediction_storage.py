"""Where tensors lie: the sizes of Stable Diffusion's, worked out by hand from the delegate's formulas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from msd.graph.prediction.device import Device
from msd.graph.prediction.storage import MOST, Stored, bhwc, element_bytes, extent, store, tensor_bytes

ADRENO = Device()


@pytest.mark.parametrize(
    ("shape", "seen"),
    [
        ((), (1, 1, 1, 1)),
        ((7,), (7, 1, 1, 1)),
        ((7, 5), (7, 1, 1, 5)),
        ((7, 5, 3), (7, 1, 5, 3)),
        ((7, 5, 3, 2), (7, 5, 3, 2)),
        ((7, 5, 3, 2, 11), (7, 5, 6, 11)),
    ],
)
def test_axes_as_the_delegate_sees_them(shape: tuple[int, ...], seen: tuple[int, ...]) -> None:
    assert bhwc(shape) == seen


@pytest.mark.parametrize(
    ("shape", "storage", "size"),
    [
        ((2, 5, 7, 10), "texture_2d", (14, 15, 1)),
        ((2, 5, 7, 10), "texture_array", (14, 5, 3)),
        ((2, 5, 7, 10), "image_buffer", (210, 1, 1)),
        ((2, 5, 7, 10), "buffer", (210, 1, 1)),
        ((1, 64, 64, 960), "texture_2d", (64, 15360, 1)),
        ((1, 4096, 320), "texture_2d", (4096, 80, 1)),
        ((1, 5, 4096, 4096), "texture_2d", (4096, 5120, 1)),
        ((5, 4096, 4096), "texture_2d", (20480, 1024, 1)),
    ],
)
def test_a_texture_has_the_size_of_its_storage(
    shape: tuple[int, ...], storage: str, size: tuple[int, int, int]
) -> None:
    assert extent(shape, storage) == size


def test_bytes_fill_channels_up_to_four() -> None:
    assert tensor_bytes((2, 5, 7, 10), 2) == 2 * 5 * 7 * 12 * 2
    assert tensor_bytes((3, 2**31, 2**31, 2**31), 4) == MOST
    assert tensor_bytes((1, -1, 7, 4), 4) == 0


def test_all_floats_have_one_precision() -> None:
    assert [element_bytes(d, "fp16") for d in ("FLOAT32", "FLOAT16", "INT32", "BOOL")] == [2, 2, 4, 1]
    assert [element_bytes(d, "fp32") for d in ("FLOAT32", "FLOAT16", "INT32", "INT4")] == [4, 4, 4, 4]


@pytest.mark.parametrize(
    ("shape", "storage"),
    [
        ((1, 512, 512, 128), "texture_2d"),
        ((1, 256, 256, 512), "image_buffer"),
        ((1, 512, 512, 256), "image_buffer"),
        ((5, 4096, 4096), "image_buffer"),
        ((1, 5, 4096, 4096), "texture_2d"),
        ((1, 1024, 1024, 513), "buffer"),
    ],
)
def test_what_is_too_large_for_a_texture_goes_elsewhere(shape: tuple[int, ...], storage: str) -> None:
    """Heights end at 16384 on an Adreno, image buffers at 128 M pixels; 512x512x128 is exactly 16384 high."""
    assert store(shape, 2, ADRENO).storage == storage


def test_a_mali_has_small_image_buffers() -> None:
    mali = replace(ADRENO, image2d_width=65536, image2d_height=65536, image_buffer_pixels=65536)
    assert store((1, 1024, 1024, 260), 2, mali).storage == "buffer"
    assert store((1, 70000, 1, 1), 2, mali).storage == "buffer"
    assert store((1, 1024, 1024, 256), 2, mali).storage == "texture_2d"


def test_the_layers_of_a_texture_array_are_limited() -> None:
    array = replace(ADRENO, activations_storage="texture_array")
    assert store((1, 4, 4, 8192), 2, array) == Stored("texture_array", 4, 4, 2048, 4 * 4 * 8192 * 2, True)
    assert store((1, 4, 4, 8193), 2, array).storage == "image_buffer"


def test_the_largest_allocation() -> None:
    """An attention at 768 pixels: 810 MiB for one image, more than an Adreno gives for two."""
    attention = (1, 5, 9216, 9216)
    assert store(attention, 2, ADRENO).bytes == 810 * 2**20
    assert store(attention, 2, ADRENO).fits
    assert not store((2, *attention[1:]), 2, ADRENO).fits


def test_what_is_unknown_is_never_exceeded() -> None:
    unknown = replace(ADRENO, image2d_width=None, image2d_height=None, allocation_bytes=None)
    assert store((2, 5, 99216, 9216), 4, unknown).storage == "texture_2d"
    assert store((2, 5, 99216, 9216), 4, unknown).fits
