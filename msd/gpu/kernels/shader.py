"""A dispatch of a kernel whose parameters have names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msd.gpu.kernels.matrix_tile import ENABLE
from msd.gpu.value import Dispatch, Kernel, Value
from msd.gpu.wgsl import header

Bindings = Mapping[str, tuple[Value, int]]
"""The value of each variable, and the width of its elements: 1, 2 or 4."""


def shader_dispatch(
    name: str,
    body: str,
    reads: Bindings,
    writes: Bindings,
    params: Mapping[str, int | float],
    groups: tuple[int, int, int],
    flops: int = 0,
    step: str = "",
    computed: int | None = None,
) -> Dispatch:
    """Return the dispatch of `body`, whose header declares the bindings and the parameters, u32 or f32.

    A value that two names of `reads` have, with one width, is bound once: WebGPU allows no more where a
    binding may be written. The body then uses the first name.
    """
    once: dict[str, tuple[Value, int]] = {}
    for variable, binding in reads.items():
        first = next((known for known, other in once.items() if other == binding), None)
        if first is None:
            once[variable] = binding
        else:
            body = re.sub(rf"\b{variable}\[", f"{first}[", body)
    reads = once
    fields = [f"{key}: {'f32' if isinstance(number, float) else 'u32'}" for key, number in params.items()]
    enable = ENABLE if "subgroupMatrix" in body else ""
    half = "f16" in body or any(value.element == "f16" for value, _ in (*reads.values(), *writes.values()))
    return Dispatch(
        kernel=Kernel(name, enable + header(reads, writes, fields, half) + body),
        reads=tuple(value for value, _ in reads.values()),
        writes=tuple(value for value, _ in writes.values()),
        groups=groups,
        params=tuple(params.values()),
        flops=flops,
        step=step,
        computed=computed,
    )
