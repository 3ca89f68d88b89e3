"""Bytes of the GPU's buffers in the processor's memory: one buffer is mapped after each run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from msd.gpu.buffer_usage import usage
from msd.gpu.value import aligned

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array

Range = tuple[Any, int, int]
"""A buffer of the GPU, the offset in it, and a number of bytes, both multiples of four."""


class Readback:
    """Reads the same ranges again and again.

    The queue's own `read_buffer` allocates memory that both processors reach, for each call: Dawn takes
    longer for that than for the copy.
    """

    def __init__(self, device: Any, ranges: Sequence[Range]) -> None:
        self._device, self._ranges = device, ranges
        sizes = [aligned(size) for _, _, size in ranges]
        self._starts = [*accumulate(sizes[:-1], initial=0)]
        self._buffer = device.create_buffer(size=max(16, sum(sizes)), usage=usage("COPY_DST", "MAP_READ"))

    def read(self) -> list[Array]:
        """Return the bytes of each range after what has been submitted, in memory of the caller's own."""
        encoder = self._device.create_command_encoder()
        for (buffer, offset, size), start in zip(self._ranges, self._starts, strict=True):
            encoder.copy_buffer_to_buffer(buffer, offset, self._buffer, start, size)
        self._device.queue.submit([encoder.finish()])
        self._buffer.map_async("READ").sync_wait()
        try:
            return [
                np.array(np.frombuffer(self._buffer.read_mapped(start, size, copy=False), np.uint8))
                for (_, _, size), start in zip(self._ranges, self._starts, strict=True)
            ]
        finally:
            self._buffer.unmap()

    def close(self) -> None:
        """Free the memory."""
        self._buffer.destroy()
