"""A WebGPU device of this machine, opened through wgpu-native.

Vulkan's loader reads VK_DRIVER_FILES and its like when the library is loaded, so a process chooses its driver
before it opens a device; `msd.run.runners.adapter` finds one that works.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from msd.errors import BadConfig, NoDelegate
from msd.gpu.gpu import Gpu

LIMITS = (
    "max-buffer-size",
    "max-storage-buffer-binding-size",
    "max-compute-workgroup-storage-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
    "max-storage-buffers-per-shader-stage",
)
"""The limits that are requested as high as the adapter has them.

Of the others a browser gives the standard's, wgpu-native the adapter's: programs are planned for the
standard's (`Gpu`'s defaults), whatever this device reports.
"""

MANY, BALANCE = 264, 11.0
"""The workgroups and the balance of a discrete GPU: an H100's, with 132 processors, 37 TFLOPS, 3.3 TB/s."""

BACKENDS = ("Vulkan", "Metal", "DX12")

FEATURES = ("shader-f16", "subgroup", "timestamp-query")


@dataclass(frozen=True)
class OpenDevice:
    """An open device: wgpu's object, the properties that kernels are chosen by, and the adapter's name."""

    wgpu: Any
    gpu: Gpu
    name: str
    software: bool
    timestamps: bool


def open_device(half: bool = True) -> OpenDevice:
    """Return a device of the first adapter; `half` asks for shader-f16, where the adapter has it.

    Raises BadConfig where wgpu is not installed, NoDelegate where it finds no adapter.
    """
    wgpu = _wgpu()
    try:
        adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    except RuntimeError as problem:
        raise NoDelegate(f"WebGPU finds no adapter here: {problem}") from None
    if adapter is None:
        raise NoDelegate("WebGPU finds no adapter here; install a Vulkan driver")
    wanted = [name for name in FEATURES if name in adapter.features and (half or name != "shader-f16")]
    limits = {name: adapter.limits[name] for name in LIMITS}
    device = adapter.request_device_sync(required_features=wanted, required_limits=limits)
    info = adapter.info
    return OpenDevice(
        wgpu=device,
        gpu=_properties(wanted, limits, info["adapter_type"] == "DiscreteGPU"),
        name=info["device"],
        software=info["adapter_type"] == "CPU",
        timestamps="timestamp-query" in wanted,
    )


@cache
def _wgpu() -> Any:
    """Return the package, set to look for adapters of Vulkan, Metal and Direct3D alone.

    OpenGL's drivers bring a copy of LLVM into the process, which crashes when TensorFlow is there too.
    """
    try:
        import wgpu
        from wgpu.backends.wgpu_native import extras
    except ImportError:
        raise BadConfig("the package wgpu is not installed; the backend webgpu needs it") from None
    extras.set_instance_extras(backends=BACKENDS)
    return wgpu


def _properties(features: list[str], limits: dict[str, int], discrete: bool) -> Gpu:
    return Gpu(
        half="shader-f16" in features,
        subgroups="subgroup" in features,
        invocations=limits["max-compute-invocations-per-workgroup"],
        workgroup_bytes=limits["max-compute-workgroup-storage-size"],
        storage_buffers=limits["max-storage-buffers-per-shader-stage"],
        buffer_bytes=limits["max-buffer-size"],
        binding_bytes=limits["max-storage-buffer-binding-size"],
        enough_workgroups=MANY if discrete else Gpu.enough_workgroups,
        balance=BALANCE if discrete else Gpu.balance,
    )
