"""A connection of two processes that carries arrays in memory which both map.

Through the socket alone an array is copied in pieces of at most some hundred kilobytes, each of which waits
for the other process.
"""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

LEAST = 4096
"""The fewest bytes of an array that goes through the mapped memory."""


class Channel:
    """Sends and receives messages over a socket's `connection`, which it leaves open when it is closed.

    The bytes of large arrays lie in a file in memory, one for each direction, that grows as needed and has no
    name. They stay until the next message of that direction is sent; the receiver copies them at once.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending, self._receiving = _Memory(), _Memory()

    def send(self, message: object) -> None:
        """Send a message; raises ConnectionError where the other end is closed."""
        apart: list[memoryview] = []

        def is_small(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes >= LEAST:
                apart.append(raw)
            return raw.nbytes < LEAST

        text = pickle.dumps(message, pickle.HIGHEST_PROTOCOL, buffer_callback=is_small)
        handle = self._sending.write(apart)
        self._connection.send((text, [raw.nbytes for raw in apart], handle is not None))
        if handle is not None:
            send_handle(self._connection, handle, 0)

    def receive(self) -> Any:
        """Return the next message, with arrays of the receiver's own; raises EOFError or ConnectionError."""
        text, sizes, is_new = self._connection.recv()
        if is_new:
            self._receiving.open(recv_handle(self._connection))
        return pickle.loads(text, buffers=self._receiving.read(sizes))

    def close(self) -> None:
        """Free the memory."""
        self._sending.close()
        self._receiving.close()


class _Memory:
    """A file in memory; it has none until it is written or opened."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._map: mmap.mmap | None = None

    def open(self, file: int) -> None:
        self._file = file

    def write(self, buffers: Sequence[memoryview]) -> int | None:
        """Write the buffers one after another; return the file if this made it."""
        is_new = bool(buffers) and self._file is None
        if is_new:
            self._file = os.memfd_create("msd")
        size, at = sum(buffer.nbytes for buffer in buffers), 0
        for buffer in buffers:
            self._mapped(size, allocate=True)[at : at + buffer.nbytes] = buffer
            at += buffer.nbytes
        return self._file if is_new else None

    def read(self, sizes: Sequence[int]) -> list[bytearray]:
        """Return copies of the buffers of these sizes."""
        found, at = list[bytearray](), 0
        for size in sizes:
            with memoryview(self._mapped(sum(sizes))) as view:
                found.append(bytearray(view[at : at + size]))
            at += size
        return found

    def _mapped(self, size: int, allocate: bool = False) -> mmap.mmap:
        """Return a map of at least `size` bytes; raises OSError where there is no memory to allocate."""
        if self._map is None or len(self._map) < size:
            assert self._file is not None, "it is written or opened first"
            if allocate:
                os.posix_fallocate(self._file, 0, size)  # a page that cannot be had would end the process
            if self._map is not None:
                self._map.close()
            self._map = mmap.mmap(self._file, size)
        return self._map

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
        if self._file is not None:
            os.close(self._file)
        self._map = self._file = None
