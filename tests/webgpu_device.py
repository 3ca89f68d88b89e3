"""WebGPU devices for tests: SwiftShader, the one that every machine has, by wgpu-native and by Dawn."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pytest

from msd.gpu.assemble import Named, assemble
from msd.gpu.device import OpenDevice, open_device
from msd.gpu.gpu_api import IMPLEMENTATIONS, GpuApi
from msd.gpu.program import Program
from msd.gpu.session import Session
from msd.gpu.value import Dispatch, Value
from msd.graph.ir.weights import Array
from msd.run.runners import adapter, swiftshader

DTYPES = {"f32": "float32", "f16": "float16", "i32": "int32", "u32": "uint32"}


DAWN = IMPLEMENTATIONS["dawn"].installed
LAVAPIPE = next(iter(adapter._lavapipe_icds()), None)
needs_lavapipe = pytest.mark.skipif(
    LAVAPIPE is None, reason="Mesa's software driver for Vulkan is not installed"
)


@cache
def device(api: GpuApi = "wgpu") -> OpenDevice:
    """Return SwiftShader's device; its loader is loaded first, where the system has none."""
    copy = swiftshader.locate() or swiftshader.install()
    os.environ["VK_ICD_FILENAMES"] = str(copy.folder / swiftshader.ICD)
    ctypes.CDLL(str(copy.folder / swiftshader.LOADER), mode=ctypes.RTLD_GLOBAL)
    return open_device(half=False, api=api)


def constant(name: str, array: Array) -> Value:
    """Return a constant that holds `array`, float32, float16, int32 or uint32."""
    element = next(e for e, dtype in DTYPES.items() if array.dtype == dtype)
    return Value(name, element, array.size, lambda: array)  # type: ignore[arg-type]


def run(
    dispatches: Sequence[Dispatch], inputs: Mapping[Value, Array], outputs: Sequence[Value]
) -> list[Array]:
    """Run dispatches on SwiftShader; returns the flat arrays of `outputs`.

    Where Dawn is installed, its compiler, which is stricter, takes the same shaders, with the same results.
    """
    named = {str(i): Named(v, (v.count,), DTYPES[v.element]) for i, v in enumerate(inputs)}
    wanted = {str(i): Named(v, (v.count,), DTYPES[v.element]) for i, v in enumerate(outputs)}
    program = assemble(dispatches, named, wanted, device().gpu)
    arrays = {str(i): np.asarray(a).reshape(-1) for i, a in enumerate(inputs.values())}
    found = _run(program, device(), arrays)
    if DAWN:
        for here, there in zip(found, _run(program, device("dawn"), arrays), strict=True):
            np.testing.assert_allclose(there, here, rtol=1e-3, atol=1e-5 * float(np.abs(here).max(initial=0)))
    return found


def _run(program: Program, opened: OpenDevice, arrays: Mapping[str, Array]) -> list[Array]:
    with Session(program, opened) as session:
        return list(session.run(arrays).values())
