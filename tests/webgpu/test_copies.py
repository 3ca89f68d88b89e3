"""Bytes to the GPU and back, by way of memory that both processors reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from msd.gpu import upload
from msd.gpu.readback import Readback
from msd.gpu.upload import Upload
from tests.webgpu_device import device

COPIED = 4 | 8
"""GPUBufferUsage.COPY_SRC and COPY_DST."""


def buffer(size: int) -> Any:
    return device().wgpu.create_buffer(size=size, usage=COPIED)


@pytest.mark.parametrize("sizes", [(4,), (64, 64), (28, 60, 12, 300, 4, 256), (1024, 4, 2000)])
def test_what_is_uploaded_is_read_back_whether_it_fits_or_not(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces end in the middle of a content, at its end, and one content needs each buffer twice."""
    monkeypatch.setattr(upload, "SIZE", 64)
    random = np.random.default_rng(len(sizes))
    contents = [random.integers(0, 256, size, np.uint8) for size in sizes]
    first, second = buffer(4096), buffer(4096)
    places = [(second if i % 2 else first, 300 * i, size) for i, size in enumerate(sizes)]
    places[0] = (first, 3000, sizes[0])
    with Upload(device().wgpu) as to_gpu:
        for (to, offset, _), content in zip(places, contents, strict=True):
            to_gpu.write(to, offset, content)
    back = Readback(device().wgpu, places)
    for found, content in zip(back.read(), contents, strict=True):
        np.testing.assert_array_equal(found, content)


def test_a_second_reading_has_the_new_bytes_and_the_first_keeps_its_own() -> None:
    target = buffer(64)
    back = Readback(device().wgpu, [(target, 8, 12), (target, 40, 4)])
    queue = device().wgpu.queue
    queue.write_buffer(target, 0, np.arange(64, dtype=np.uint8))
    before = back.read()
    queue.write_buffer(target, 0, np.arange(64, 128, dtype=np.uint8))
    after = back.read()
    assert [each.tolist() for each in before] == [[*range(8, 20)], [*range(40, 44)]]
    assert [each.tolist() for each in after] == [[*range(72, 84)], [*range(104, 108)]]
    before[0][:] = 1
    assert [each.tolist() for each in back.read()] == [[*range(72, 84)], [*range(104, 108)]]


def upload_and_stop(target: Any) -> None:
    with Upload(device().wgpu) as to_gpu:
        to_gpu.write(target, 0, np.ones(16, np.uint8))
        raise ValueError("cannot be read")


def test_what_stops_an_upload_is_raised_and_nothing_more_is_sent() -> None:
    target = buffer(64)
    with pytest.raises(ValueError, match="cannot be read"):
        upload_and_stop(target)
    assert not Readback(device().wgpu, [(target, 0, 16)]).read()[0].any()
