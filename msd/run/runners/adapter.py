"""Find a Vulkan adapter for the GPU delegate or WebGPU: a real GPU where there is one, else a software one.

What runs on an adapter probes it: a driver that LiteRT's delegate or Dawn refuses may suit wgpu-native.
"""

from __future__ import annotations

import ctypes.util
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from threading import Lock

from msd.errors import NoDelegate
from msd.gpu.gpu_api import IMPLEMENTATIONS, GpuApi
from msd.run.runners import swiftshader
from msd.run.runners.probe import ProbeResult
from msd.run.runners.remembered_probe import probed, recalled
from msd.run.runners.runner import VulkanAdapter

VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
"""Environment variables by which a user chooses drivers for Vulkan's loader; the first is the newer name."""

NVIDIA = Path("/usr/local/nvidia")
"""The folder of NVIDIA's driver in containers, which Vulkan's loader does not search by itself."""

ICD_FOLDERS = (
    "/etc/vulkan/icd.d",
    "/usr/share/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
    str(NVIDIA / "share/vulkan/icd.d"),
)
INSTALL = "install your GPU's Vulkan driver, or Debian's chromium-common package, which contains SwiftShader"
LAVAPIPE = "lvp"
"""How the names of the ICD files of lavapipe, Mesa's software driver, begin."""
DEVICES = ("dri/renderD*", "nvidia[0-9]*", "dxg")
"""Device files under /dev that come with a real GPU; drivers may be installed without one."""


@dataclass(frozen=True)
class Driver:
    """A driver to probe: its origin in words, the environment that selects it, and what runs on it.

    `api`: an implementation of WebGPU, None for LiteRT's GPU delegate.
    """

    origin: str
    environment: Mapping[str, str]
    api: GpuApi | None = None

    @property
    def title(self) -> str:
        """Its origin, and the implementation of WebGPU."""
        return f"{self.origin} with {IMPLEMENTATIONS[self.api].title}" if self.api else self.origin


_FINDING = Lock()


def find(*apis: GpuApi) -> VulkanAdapter:
    """Return what `_find` finds, once for the process, though threads ask side by side."""
    with _FINDING:
        return _find(apis)


@cache
def _find(apis: tuple[GpuApi, ...] = ()) -> VulkanAdapter:
    """Return the first adapter on which the GPU delegate works, or one of `apis`, where these are given.

    The order is: the driver that the user names in VK_DRIVER_FILES or VK_ICD_FILENAMES (and then no other),
    the system's drivers if there is a GPU, for WebGPU lavapipe if it is installed, and SwiftShader, which is
    installed if necessary. Each is tried with all `apis`. Raises NoDelegate, whose message lists the drivers
    tried and what to install.
    """
    reasons: list[str] = []
    for driver in _drivers(reasons, apis):
        try:
            found = probed(driver.environment, _gpus(), driver.api)
        except NoDelegate as problem:
            reasons.append(f"{driver.title}: {problem}")
        else:
            return _adapter(driver, found, reasons)
    variable = _user_variable()
    remedy = f"name another driver in {variable}, or unset it" if variable else INSTALL
    runs = "WebGPU runs" if apis else "the GPU delegate runs"
    raise NoDelegate(f"{runs} on no Vulkan adapter here (tried: {'; '.join(reasons)}); {remedy}")


def first_driver(*apis: GpuApi) -> Driver | None:
    """Return the driver that `find` tries first, with the one of `apis` that it is remembered to work with.

    With the first of them where none is remembered; None where `find` would have to install a driver.
    """
    with _FINDING:
        files = (_system_icds() if _gpus() else []) + (_lavapipe_icds() if apis else [])
        if not (_has_loader() and (_user_variable() or files)) and swiftshader.locate() is None:
            return None
        first = [*islice(_drivers([], apis), len(apis) or 1)]
        return next(filter(is_remembered, first), first[0] if first else None)


def is_remembered(driver: Driver) -> bool:
    """Return whether the driver has been probed before, and found to work."""
    return recalled(driver.environment, _gpus(), driver.api) is not None


def _adapter(driver: Driver, found: ProbeResult, reasons: Iterable[str]) -> VulkanAdapter:
    return VulkanAdapter(
        name=found.name,
        type=found.type,
        origin=driver.origin,
        half_floats=found.half_floats,
        environment=driver.environment,
        api=driver.api,
        passed_over=tuple(reasons),
    )


def _drivers(reasons: list[str], apis: Collection[GpuApi]) -> Iterator[Driver]:
    """Yield the drivers to try, each with all `apis`; add to `reasons` why one cannot be tried."""
    for describe in (_user_driver,) if _user_variable() else _unnamed(bool(apis)):
        try:
            driver = describe()
        except NoDelegate as problem:
            reasons.append(str(problem))
        else:
            if driver:
                yield from (replace(driver, api=api) for api in apis or (None,))


def _unnamed(on_webgpu: bool) -> tuple[Callable[[], Driver | None], ...]:
    """Return what describes the drivers that are tried where the user names none, in order.

    Before SwiftShader, kernels of our own run on lavapipe: in a sixth of the time per run of the demo's
    U-Net, after a first run that takes 11 s instead of 4 (measured on two cores, with Mesa 22.3).
    """
    return (_system_driver, _lavapipe, _swiftshader) if on_webgpu else (_system_driver, _swiftshader)


def _user_variable() -> str | None:
    return next((name for name in VARIABLES if os.environ.get(name)), None)


def _user_driver() -> Driver:
    return Driver(f"the driver named by {_user_variable()}", _library_path())


def _system_driver() -> Driver | None:
    return _installed("the system's Vulkan driver", _system_icds() if _gpus() else [])


def _lavapipe() -> Driver | None:
    return _installed("Mesa's lavapipe", _lavapipe_icds())


def _installed(origin: str, files: Sequence[str]) -> Driver | None:
    if not files:
        return None
    return Driver(origin, {"VK_ICD_FILENAMES": os.pathsep.join(files), **_library_path()})


def _swiftshader() -> Driver:
    copy = swiftshader.locate() or swiftshader.install()
    return Driver(copy.origin, {"VK_ICD_FILENAMES": str(copy.folder / swiftshader.ICD), **_library_path()})


def _system_icds() -> list[str]:
    """Return the ICD files of installed drivers, except those of Mesa's software driver."""
    return [str(file) for file in _icds() if not file.name.startswith(LAVAPIPE)]


def _lavapipe_icds() -> list[str]:
    return [str(file) for file in _icds() if file.name.startswith(LAVAPIPE)]


def _icds() -> list[Path]:
    return [file for folder in ICD_FOLDERS for file in sorted(Path(folder).glob("*.json"))]


def _gpus() -> list[Path]:
    return [device for pattern in DEVICES for device in Path("/dev").glob(pattern)]


@cache
def _has_loader() -> bool:
    return ctypes.util.find_library("vulkan") is not None


def _library_path() -> dict[str, str]:
    """Return a library path with Vulkan's loader and NVIDIA's libraries on it; raises NoDelegate."""
    folders = [os.environ.get("LD_LIBRARY_PATH", "")]
    if (NVIDIA / "lib64").is_dir():
        folders.append(str(NVIDIA / "lib64"))
    if not _has_loader():
        folders.append(str((swiftshader.locate() or swiftshader.install()).folder))
    return {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, folders))}
