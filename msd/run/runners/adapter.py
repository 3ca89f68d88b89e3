"""Find a Vulkan adapter that the GPU delegate runs on: a real GPU where there is one, else SwiftShader."""

from __future__ import annotations

import ctypes.util
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock

from msd.errors import NoDelegate
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
DEVICES = ("dri/renderD*", "nvidia[0-9]*", "dxg")
"""Device files under /dev that come with a real GPU; drivers may be installed without one."""


@dataclass(frozen=True)
class Driver:
    """A driver to probe: its origin in words, and the environment that selects it."""

    origin: str
    environment: Mapping[str, str]


_FINDING = Lock()


def find() -> VulkanAdapter:
    """Return what `_find` finds, once for the process, though threads ask side by side."""
    with _FINDING:
        return _find()


@cache
def _find() -> VulkanAdapter:
    """Return the first adapter on which the delegate works, installing SwiftShader if necessary.

    The order is: the driver that the user names in VK_DRIVER_FILES or VK_ICD_FILENAMES (and then no other),
    the system's drivers if there is a GPU, SwiftShader. Raises NoDelegate, whose message lists the drivers
    tried and what to install.
    """
    reasons: list[str] = []
    for driver in _drivers(reasons):
        try:
            found = probed(driver.environment, _gpus())
        except NoDelegate as problem:
            reasons.append(f"{driver.origin}: {problem}")
        else:
            return _adapter(driver, found, reasons)
    raise NoDelegate(
        f"the GPU delegate runs on no Vulkan adapter here (tried: {'; '.join(reasons)}); install your GPU's "
        "Vulkan driver, or Debian's chromium-common package, which contains SwiftShader"
    )


def first_driver() -> Driver | None:
    """Return the driver that `find` tries first; None where it would have to install one."""
    with _FINDING:
        on_system = _has_loader() and (_user_variable() or (_system_icds() and _gpus()))
        if not on_system and swiftshader.locate() is None:
            return None
        return next(_drivers([]), None)


def is_remembered(driver: Driver) -> bool:
    """Return whether the driver has been probed before, and found to work."""
    return recalled(driver.environment, _gpus()) is not None


def _adapter(driver: Driver, found: ProbeResult, reasons: Iterable[str]) -> VulkanAdapter:
    return VulkanAdapter(
        name=found.name,
        type=found.type,
        origin=driver.origin,
        half_floats=found.half_floats,
        environment=driver.environment,
        passed_over=tuple(reasons),
    )


def _drivers(reasons: list[str]) -> Iterator[Driver]:
    """Yield the drivers to try; add to `reasons` why one cannot be tried."""
    for describe in (_user_driver,) if _user_variable() else (_system_driver, _swiftshader):
        try:
            driver = describe()
        except NoDelegate as problem:
            reasons.append(str(problem))
        else:
            if driver:
                yield driver


def _user_variable() -> str | None:
    return next((name for name in VARIABLES if os.environ.get(name)), None)


def _user_driver() -> Driver:
    return Driver(f"the driver named by {_user_variable()}", _library_path())


def _system_driver() -> Driver | None:
    files = _system_icds()
    if not files or not _gpus():
        return None
    return Driver(
        "the system's Vulkan driver", {"VK_ICD_FILENAMES": os.pathsep.join(files), **_library_path()}
    )


def _swiftshader() -> Driver:
    copy = swiftshader.locate() or swiftshader.install()
    return Driver(copy.origin, {"VK_ICD_FILENAMES": str(copy.folder / swiftshader.ICD), **_library_path()})


def _system_icds() -> list[str]:
    """Return the ICD files of installed drivers, except those of Mesa's software driver."""
    files = (file for folder in ICD_FOLDERS for file in sorted(Path(folder).glob("*.json")))
    return [str(file) for file in files if not file.name.startswith("lvp")]


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
