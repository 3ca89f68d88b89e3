"""Constants on their way to the GPU, through a few buffers that both processors reach, used in turn."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msd.gpu.buffer_usage import usage

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array

BUFFERS, SIZE = 3, 16 << 20
"""The processor fills one buffer while the GPU reads the others."""
ALIGNMENT = 8
"""The alignment of what is written to a mapped buffer, in bytes, as the standard has it."""


class Upload:
    """Writes to buffers of `device`; everything is on its way when the block ends.

    The queue's own `write_buffer` allocates memory that both processors reach, for each call: with NVIDIA's
    driver that takes longer than filling it.
    """

    def __init__(self, device: Any) -> None:
        self._device, self._turn, self._used = device, 0, 0
        self._copies: list[tuple[int, Any, int, int]] = []
        self._buffers: list[Any] = []

    def write(self, buffer: Any, offset: int, content: Array) -> None:
        """Write bytes, a whole number of words, to `buffer`; the offset is a whole number of words too."""
        while content.size:
            if not self._used:
                self._begin()
            piece, content = content[: SIZE - self._used], content[SIZE - self._used :]
            self._buffers[self._turn].write_mapped(piece, self._used)
            self._copies.append((self._used, buffer, offset, piece.size))
            offset += piece.size
            self._used += -(-piece.size // ALIGNMENT) * ALIGNMENT
            if self._used == SIZE:
                self._send()

    def _begin(self) -> None:
        """Map the buffer whose turn it is, which waits until the GPU has read what it held before."""
        if self._turn == len(self._buffers):
            self._buffers.append(self._device.create_buffer(size=SIZE, usage=usage("MAP_WRITE", "COPY_SRC")))
        self._buffers[self._turn].map_async("WRITE").sync_wait()

    def _send(self) -> None:
        self._buffers[self._turn].unmap()
        encoder = self._device.create_command_encoder()
        for start, buffer, offset, size in self._copies:
            encoder.copy_buffer_to_buffer(self._buffers[self._turn], start, buffer, offset, size)
        self._device.queue.submit([encoder.finish()])
        self._turn, self._used, self._copies = (self._turn + 1) % BUFFERS, 0, []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._copies and kind is None:
            self._send()
        for buffer in self._buffers:
            buffer.destroy()  # the GPU reads them first
