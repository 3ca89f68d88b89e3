"""A connection of two processes that carries arrays in memory which both map.

Through the socket alone an array is copied in pieces of at most some hundred kilobytes, each of which waits
for the other process.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from itertools import accumulate
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
        self._is_shared = False

    def send(self, message: object) -> None:
        """Send a message; raises ConnectionError where the other end is closed."""
        apart: list[memoryview] = []

        def is_small(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes >= LEAST:
                apart.append(raw)
            return raw.nbytes < LEAST

        text = _pickled(message, is_small)
        self._sending.write(apart)
        is_first = bool(apart) and not self._is_shared
        self._connection.send((text, [raw.nbytes for raw in apart], is_first))
        if is_first:
            send_handle(self._connection, self._sending.file, 0)
            self._is_shared = True  # not before: what interrupts a first message leaves that to the next

    def receive(self) -> Any:
        """Return the next message, with arrays of the receiver's own; raises EOFError or ConnectionError."""
        text, sizes, is_first = self._connection.recv()
        if is_first:
            self._receiving.file = recv_handle(self._connection)
        return pickle.loads(text, buffers=self._receiving.read(sizes))

    def close(self) -> None:
        """Free the memory."""
        self._sending.close()
        self._receiving.close()


class _Pickler(pickle.Pickler):
    """Hands the bytes of every array to `buffer_callback`: pickle itself puts those with gaps in the text."""

    def reducer_override(self, value: Any) -> Any:
        numpy = sys.modules.get("numpy")  # a process that starts others does not wait for its import
        if numpy is None or type(value) is not numpy.ndarray or value.dtype.hasobject or value.flags.forc:
            return NotImplemented
        return numpy.ascontiguousarray(value).__reduce_ex__(pickle.HIGHEST_PROTOCOL)


def _pickled(message: object, is_small: Callable[[pickle.PickleBuffer], bool]) -> bytes:
    """Return a message without the buffers that are not small."""
    text = io.BytesIO()
    _Pickler(text, pickle.HIGHEST_PROTOCOL, buffer_callback=is_small).dump(message)
    return text.getvalue()


class _Memory:
    """A file in memory, of which the sender makes one when it first writes."""

    def __init__(self) -> None:
        self.file = -1
        self._map: mmap.mmap | None = None

    def write(self, buffers: Sequence[memoryview]) -> None:
        """Write the buffers one after another; raises OSError where there is no memory for them."""
        if not buffers:
            return
        if self.file < 0:
            self.file = os.memfd_create("msd")
        size, at = sum(buffer.nbytes for buffer in buffers), 0
        if not self._holds(size):
            os.posix_fallocate(self.file, 0, size)  # a page that cannot be had would end the process
        whole = self._mapped(size)
        for buffer in buffers:
            whole[at : at + buffer.nbytes] = buffer
            at += buffer.nbytes

    def read(self, sizes: Sequence[int]) -> list[bytearray]:
        """Return copies of the buffers of these sizes."""
        if not sizes:
            return []
        with memoryview(self._mapped(sum(sizes))) as whole:
            ends = [*accumulate(sizes)]
            return [bytearray(whole[end - size : end]) for size, end in zip(sizes, ends, strict=True)]

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
        if self.file >= 0:
            os.close(self.file)
        self._map, self.file = None, -1

    def _mapped(self, size: int) -> mmap.mmap:
        """Return a map of at least `size` bytes."""
        if self._map is None or not self._holds(size):
            if self._map is not None:
                self._map.close()
            self._map = mmap.mmap(self.file, size)
        return self._map

    def _holds(self, size: int) -> bool:
        return self._map is not None and len(self._map) >= size
