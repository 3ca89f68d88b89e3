"""What a file was compiled to on WebGPU, as the child process tells its parent."""

from __future__ import annotations

from dataclasses import dataclass

from msd.gpu.phases import Phase


@dataclass(frozen=True)
class Opening:
    """How a file was opened: the parts of the work, and remarks for people, a clause each."""

    phases: tuple[Phase, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class DispatchFacts:
    """One dispatch: its kernel, the operation that it belongs to, its workgroups, and what is counted of it.

    `flops` are the operation's additions and multiplications, `arithmetic` the kernel's, which has fewer with
    Winograd's; `bytes` those of all that it reads and writes. `matrices`: matrix units multiply in it.
    """

    kernel: str
    operation: str
    groups: tuple[int, ...]
    flops: int
    bytes: int
    arithmetic: int
    matrices: bool


@dataclass(frozen=True)
class ProgramFacts:
    """A program for a file of `operations`: its dispatches in order, and bytes of the GPU's memory.

    `tensor_bytes` hold the activations, of which any plan needs `least_tensor_bytes`; `weight_bytes` the
    constants, `parameter_bytes` the dispatches' parameters. `software`: the adapter is a program on the CPU.
    `timestamps`: the adapter can time a dispatch.
    """

    operations: int
    pipelines: int
    dispatches: tuple[DispatchFacts, ...]
    tensor_bytes: int
    least_tensor_bytes: int
    weight_bytes: int
    parameter_bytes: int
    software: bool
    timestamps: bool
