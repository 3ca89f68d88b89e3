"""The pages of a mapped file, which would all stay in the process's memory once they were read."""

from __future__ import annotations

import mmap
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from msd.gpu.program import Constant

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array

ROOM = 256 << 20
"""The bytes of constants that are made before the pages that they were read from leave the memory."""


class MappedPages:
    """A mapped file whose pages leave the process's memory as constants are made of them.

    They stay in the system's own cache, from which what is read again comes back.
    """

    def __init__(self, view: mmap.mmap) -> None:
        self._view, self._made = view, 0

    def released(self, constant: Constant) -> Constant:
        """Return the constant with a `load` that makes room now and then; threads may call several."""
        return replace(constant, load=partial(self._load, constant))

    def _load(self, constant: Constant) -> Array:
        loaded = constant.load()
        self._made += loaded.nbytes
        if self._made >= ROOM and hasattr(mmap, "MADV_DONTNEED"):
            self._made = 0
            self._view.madvise(mmap.MADV_DONTNEED)
        return loaded
