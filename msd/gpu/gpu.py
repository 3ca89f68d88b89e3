"""The properties of a GPU that kernels are chosen by: WebGPU's features and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Element = Literal["f32", "f16", "i32", "u32"]
"""The type of a value's elements, as WGSL calls it."""

BYTES: dict[Element, int] = {"f32": 4, "f16": 2, "i32": 4, "u32": 4}


@dataclass(frozen=True)
class MatrixUnit:
    """The product of matrices that `subgroup` threads compute at once, of f16 operands with f32 sums.

    `rows` x `depth` by `depth` x `columns`, one of the adapter's subgroup matrix configurations.
    """

    rows: int
    columns: int
    depth: int
    subgroup: int


@dataclass(frozen=True)
class Gpu:
    """Features and limits of a WebGPU device, under WebGPU's names; the defaults are those of the standard.

    `half`: the feature shader-f16. `subgroups`: the feature subgroups. Limits: invocations and bytes of
    workgroup memory, storage buffers of a pipeline, bytes of a buffer and of a binding, and workgroups along
    a dimension. `matrix`: what Dawn's feature chromium-experimental-subgroup-matrix computes, None without.

    What WebGPU does not tell, about: `enough_workgroups` of 256 fill the GPU, and it adds and multiplies
    `balance` times while memory moves a byte. The defaults are those of a phone: some 3 TFLOPS, 60 GB/s.
    `short_sums` is a wish: a few products may be summed in f16 before they join a f32 sum. With `bitcasts`,
    shaders may read two f16 as a word, which naga, wgpu-native's compiler, refuses.
    """

    half: bool = False
    subgroups: bool = False
    invocations: int = 256
    workgroup_bytes: int = 16384
    storage_buffers: int = 8
    buffer_bytes: int = 256 << 20
    binding_bytes: int = 128 << 20
    workgroups: int = 65535
    enough_workgroups: int = 16
    short_sums: bool = False
    balance: float = 50.0
    bitcasts: bool = False
    matrix: MatrixUnit | None = None

    @property
    def processors(self) -> int:
        """The processors, of which two workgroups of 256 fill each."""
        return max(1, self.enough_workgroups // 2)

    @property
    def is_large(self) -> bool:
        """Whether it is of the kind that was measured; a phone's has fewer processors, and none was."""
        return self.processors >= 64

    @property
    def real(self) -> Element:
        """The type of activations: f16 where the GPU has it, else f32."""
        return "f16" if self.half else "f32"
