"""Values in GPU memory, and the dispatches that read and write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msd.gpu.gpu import BYTES, Element

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array

ALIGNMENT = 256
"""The alignment of bindings in a buffer, in bytes: WebGPU's min-storage-buffer-offset-alignment."""


def aligned(size: int) -> int:
    """Return `size` bytes, rounded up to where the next binding may begin."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, eq=False)
class Value:
    """A flat array of `count` elements in GPU memory.

    With `load`, a constant: `load()` returns its array, whose bytes are uploaded once. Without, an
    activation, which the memory plan places.
    """

    name: str
    element: Element
    count: int
    load: Callable[[], Array] | None = field(default=None, repr=False)

    @property
    def bytes(self) -> int:
        """Its bytes, rounded up to whole vectors of four words."""
        return -(-self.count * BYTES[self.element] // 16) * 16


@dataclass(frozen=True)
class Kernel:
    """The WGSL of a compute shader with the entry point `main`.

    Its bindings, all in group 0, are the dispatch's `reads` in order, then its `writes`, then, where the
    dispatch has `params`, a uniform buffer. `name` is for tables: the operation and its variant. Dispatches
    whose WGSL is equal share one pipeline, so shapes belong in `params` unless a constant is much faster.
    """

    name: str
    wgsl: str


@dataclass(frozen=True, eq=False)
class Dispatch:
    """One run of a kernel over `groups` workgroups.

    `params` are the words of its uniform buffer: ints are u32 (i32 where negative), floats f32. `flops`
    counts the additions and multiplications of the operation, not of the algorithm: Winograd's are those of
    the convolution; `computed` are those of the algorithm where they differ. `step` names the operation of
    the graph that it belongs to.
    """

    kernel: Kernel
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    groups: tuple[int, int, int]
    params: tuple[int | float, ...] = ()
    flops: int = 0
    step: str = ""
    computed: int | None = None

    @property
    def arithmetic(self) -> int:
        """The additions and multiplications that the kernel computes."""
        return self.flops if self.computed is None else self.computed

    @property
    def bytes(self) -> int:
        """The bytes of all values that it reads and writes, each once."""
        return sum(value.bytes for value in dict.fromkeys((*self.reads, *self.writes)))
