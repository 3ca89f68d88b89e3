"""A program: everything that a WebGPU implementation needs to run a graph, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msd.gpu.gpu import Element
from msd.gpu.value import aligned

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array


ARENA, PARAMS, FIRST_CONSTANTS = range(3)
"""The numbers of a program's first buffers."""


@dataclass(frozen=True)
class Place:
    """A binding: `bytes` at `offset` of the buffer number `buffer`."""

    buffer: int
    offset: int
    bytes: int


@dataclass(frozen=True)
class Port:
    """An input or output of a program: TFLite's shape and dtype, and the elements on the GPU."""

    shape: tuple[int, ...]
    dtype: str
    element: Element
    place: Place


@dataclass(frozen=True)
class Constant:
    """A constant's bytes and their place."""

    name: str
    place: Place
    load: Callable[[], Array] = field(repr=False, compare=False)


@dataclass(frozen=True)
class ComputePipeline:
    """A shader, and the type of each of its bindings as WebGPU's bind group layouts call them."""

    name: str
    wgsl: str
    bindings: tuple[str, ...]


@dataclass(frozen=True)
class ProgramStep:
    """A dispatch of the pipeline number `pipeline`; the last of `places` is its parameters', if it has any.

    `flops`, `arithmetic` and `bytes` are counted as `msd.gpu.value.Dispatch` says; `operation` names what
    it computes.
    """

    pipeline: int
    places: tuple[Place, ...]
    groups: tuple[int, int, int]
    flops: int
    arithmetic: int
    bytes: int
    operation: str


@dataclass(frozen=True)
class Program:
    """Buffers by size, what they hold at first, and the dispatches in order.

    Buffer 0 is the arena of the activations, buffer 1 holds `params`, the words of all dispatches'
    parameters; the next hold `constants`, and the last, where the arena would be larger than a buffer of the
    GPU may be, the rest of the activations. `least_arena` is the fewest bytes that any plan needs for the
    activations.
    """

    buffers: tuple[int, ...]
    params: bytes
    constants: tuple[Constant, ...]
    pipelines: tuple[ComputePipeline, ...]
    steps: tuple[ProgramStep, ...]
    inputs: dict[str, Port]
    outputs: dict[str, Port]
    least_arena: int

    @property
    def constant_buffers(self) -> tuple[int, ...]:
        """The numbers of the buffers that hold constants."""
        return tuple(sorted({constant.place.buffer for constant in self.constants}))

    def joined_constants(self, limit: int) -> list[list[int]]:
        """Return the numbers of the constants' buffers in groups, each of at most `limit` bytes or of one."""
        groups, room = list[list[int]](), 0
        for number in self.constant_buffers:
            size = aligned(self.buffers[number])
            if size > room:
                groups.append([])
                room = limit
            groups[-1].append(number)
            room -= size
        return groups

    @property
    def weight_bytes(self) -> int:
        """The bytes of the constants' buffers."""
        return sum(self.buffers[number] for number in self.constant_buffers)

    @property
    def tensor_bytes(self) -> int:
        """The bytes of the activations' buffers."""
        return sum(self.buffers) - self.buffers[1] - self.weight_bytes
