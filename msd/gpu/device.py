"""A WebGPU device of this machine, opened through wgpu-native or Dawn.

Vulkan's loader reads VK_DRIVER_FILES and its like when the library is loaded, so a process chooses its driver
before it opens a device; `msd.run.runners.adapter` finds one that works.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from typing import Any

from msd.errors import NoDelegate
from msd.gpu.buffer_usage import usage
from msd.gpu.gpu import Gpu, MatrixUnit
from msd.gpu.gpu_api import IMPLEMENTATIONS, GpuApi, choose_api, load_api
from msd.gpu.program import ComputePipeline

LIMITS = (
    "max-buffer-size",
    "max-storage-buffer-binding-size",
    "max-compute-workgroup-storage-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
    "max-storage-buffers-per-shader-stage",
)
"""The limits that are requested as high as the adapter has them.

Of the others a browser and Dawn give the standard's, wgpu-native the adapter's: programs are planned for the
standard's (`Gpu`'s defaults), whatever this device reports.
"""

MANY, BALANCE = 264, 11.0
"""The workgroups and the balance of a discrete GPU: an H100's, with 132 processors, 37 TFLOPS, 3.3 TB/s."""

MATRICES = "chromium-experimental-subgroup-matrix"
UNCHECKED = ("disable_robustness",)
"""Dawn's toggle of devices with matrix units: shaders do not check indices, which the kernels guard already.

On an H100 convolutions by matrices take 0.75 to 0.85 of the time then (docs/kernels.md).
"""
ZEROED_BY_DRIVER = ("use_vulkan_zero_initialize_workgroup_memory_extension",)
"""Dawn's toggle that is off on software adapters: their driver is not asked to clear workgroup memory.

Asked for that, SwiftShader compiles the two group norms that were tried in 2.4 to 2.6 s of processor time,
in 0.3 to 0.4 s where Dawn clears it; other software drivers were not tried.
"""
FEATURES = ("shader-f16", "subgroups", "timestamp-query", MATRICES)
"""The features that are used, as the standard, or Dawn, calls them."""


COMPUTE = 4
"""GPUShaderStage.COMPUTE, as the standard has it."""
KEPT = 512
"""The pipelines that a device keeps for what is loaded next: a U-Net has about 150."""


@dataclass(frozen=True)
class OpenDevice:
    """An open device: the object of `api`, the properties that kernels are chosen by, the adapter's name.

    `driver`: what the adapter tells of its driver, and the package of `api` with its version.
    """

    wgpu: Any
    gpu: Gpu
    name: str
    software: bool
    timestamps: bool
    api: GpuApi = "wgpu"
    driver: str = ""
    _made: dict[tuple[str, tuple[str, ...]], Future[tuple[Any, Any]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def pipeline(self, wanted: ComputePipeline) -> tuple[Any, Any]:
        """Return a pipeline and the layout of its bindings: one made before, if it has the same shader.

        Networks that are loaded again, or for another size, have many in common. May be called in any thread;
        what another thread is making is awaited.
        """
        key, making = (wanted.wgsl, wanted.bindings), Future[tuple[Any, Any]]()
        if (made := self._made.setdefault(key, making)) is making:
            try:
                making.set_result(self._make(wanted))
            except BaseException as problem:
                self._made.pop(key, None)
                making.set_exception(problem)
            for oldest in list(self._made)[:-KEPT]:
                self._made.pop(oldest, None)
        return made.result()

    def _make(self, wanted: ComputePipeline) -> tuple[Any, Any]:
        entries = [
            {"binding": i, "visibility": COMPUTE, "buffer": {"type": kind}}
            for i, kind in enumerate(wanted.bindings)
        ]
        layout = self.wgpu.create_bind_group_layout(entries=entries)
        module = self.wgpu.create_shader_module(code=wanted.wgsl, label=wanted.name)
        made = self.wgpu.create_compute_pipeline(
            layout=self.wgpu.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={"module": module, "entry_point": "main"},
            label=wanted.name,
        )
        return made, layout

    def settle(self) -> None:
        """Wait for the queue: the memory of destroyed buffers is freed when the queue has passed them."""
        buffer = self.wgpu.create_buffer(size=16, usage=usage("COPY_SRC"))
        self.wgpu.queue.read_buffer(buffer)
        buffer.destroy()


def open_device(half: bool = True, api: GpuApi | None = None) -> OpenDevice:
    """Return a device of the first adapter; `half` asks for shader-f16, where the adapter has it.

    `api` is the implementation of WebGPU, None for the one that `choose_api` takes. Raises BadConfig where it
    is not installed, NoDelegate where it finds no adapter.
    """
    api = choose_api(api)
    adapter = _adapter(api)
    spellings = IMPLEMENTATIONS[api].spellings
    offered = [name for name in FEATURES if spellings.get(name, name) in adapter.features]
    unit = (
        _matrix_unit(api, adapter) if half and {"shader-f16", "subgroups", MATRICES} <= {*offered} else None
    )
    unwanted = {*([] if half else ["shader-f16"]), *([] if unit else [MATRICES])}
    wanted = [name for name in offered if name not in unwanted]
    limits = {name: adapter.limits[name] for name in LIMITS}
    info = adapter.info
    software = info["adapter_type"] == "CPU"
    device = _request(api, unit, software)(
        adapter,
        required_features=[spellings.get(name, name) for name in wanted],
        required_limits=limits,
    )
    properties = _properties(wanted, limits, info["adapter_type"] == "DiscreteGPU")
    return OpenDevice(
        wgpu=device,
        gpu=replace(properties, matrix=unit, bitcasts=api == "dawn" and properties.half),
        name=info["device"],
        software=software,
        timestamps="timestamp-query" in wanted,
        api=api,
        driver=_driver(api, info),
    )


def _driver(api: GpuApi, info: Mapping[str, Any]) -> str:
    package = IMPLEMENTATIONS[api].package
    return f"{info['vendor']} {info['description']}, {package} {version(package)}"


def _request(api: GpuApi, unit: MatrixUnit | None, software: bool) -> Callable[..., Any]:
    """Return what requests a device of an adapter; `unit` comes from Dawn alone."""
    if api != "dawn":
        return lambda adapter, **wanted: adapter.request_device_sync(**wanted)
    _, extras = load_api(api)
    return partial(
        extras.request_device_sync,
        enable_toggles=UNCHECKED if unit else (),
        disable_toggles=ZEROED_BY_DRIVER if software else (),
    )


def _matrix_unit(api: GpuApi, adapter: Any) -> MatrixUnit | None:
    """Return the largest product of f16 matrices with f32 sums that the adapter offers, None without one."""
    _, extras = load_api(api)
    return choose_unit(extras.get_adapter_properties(adapter).get("subgroup_matrix_configs", []))


def choose_unit(offered: Iterable[Mapping[str, Any]]) -> MatrixUnit | None:
    """Return the largest of an adapter's configurations, f16 with f32 sums, for subgroups of one size.

    Subgroups of several sizes leave open which threads share a matrix; sizes that four does not divide do not
    fit the kernels.
    """
    fitting = [
        MatrixUnit(each["m"], each["n"], each["k"], each["min_subgroup_size"])
        for each in offered
        if (each["component_type"], each["result_component_type"]) == ("f16", "f32")
        and each["min_subgroup_size"] == each["max_subgroup_size"]
        and all(each[name] % 4 == 0 for name in "mnk")
    ]
    return max(fitting, key=lambda unit: unit.rows * unit.columns * unit.depth, default=None)


def _adapter(api: GpuApi) -> Any:
    package, _ = load_api(api)
    try:
        adapter = package.gpu.request_adapter_sync(power_preference="high-performance")
    except RuntimeError as problem:
        raise NoDelegate(f"WebGPU finds no adapter here: {_of_vulkan(str(problem))}") from None
    if adapter is None:
        raise NoDelegate("WebGPU finds no adapter here; install a Vulkan driver")
    return adapter


def _of_vulkan(words: str) -> str:
    """Return what an implementation says of Vulkan, without its words on what it was not asked for."""
    line = " ".join(words.replace("\\n", " ").split()).removeprefix("Request adapter failed: ")
    clauses = re.split("[,;] ", line.rpartition("Caused by: ")[2])
    return ", ".join(each for each in clauses if not each.endswith(("not requested", "not compiled in")))


def _properties(features: Sequence[str], limits: dict[str, int], discrete: bool) -> Gpu:
    return Gpu(
        half="shader-f16" in features,
        subgroups="subgroups" in features,
        invocations=limits["max-compute-invocations-per-workgroup"],
        workgroup_bytes=limits["max-compute-workgroup-storage-size"],
        storage_buffers=limits["max-storage-buffers-per-shader-stage"],
        buffer_bytes=limits["max-buffer-size"],
        binding_bytes=limits["max-storage-buffer-binding-size"],
        enough_workgroups=MANY if discrete else Gpu.enough_workgroups,
        balance=BALANCE if discrete else Gpu.balance,
    )
