"""Find a Vulkan adapter that carries the GPU delegate: a real GPU where there is one, else SwiftShader."""

from __future__ import annotations

import ctypes.util
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from msd.errors import NoDelegate
from msd.runners import swiftshader
from msd.runners.probe import probe

NAMED = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
"""Either names the user's choice of drivers to Vulkan's loader; the first is the newer name."""

NVIDIA = Path("/usr/local/nvidia")
"""Where containers find NVIDIA's driver: a place the loader does not look in by itself."""

ICD_FOLDERS = (
    "/etc/vulkan/icd.d",
    "/usr/share/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
    str(NVIDIA / "share/vulkan/icd.d"),
)
DEVICES = ("dri/renderD*", "nvidia[0-9]*", "dxg")
"""Device files under /dev that come with a real GPU; drivers may be installed without one."""


@dataclass(frozen=True)
class VulkanAdapter:
    """An adapter on which the delegate has been seen to work.

    `name` and `type` are Dawn's words ("CPU / Software" for SwiftShader), `origin` says where the driver
    comes from, `half_floats` whether float16 arithmetic is really done, `environment` what a child process
    needs, `passed_over` which drivers were tried before it and why they would not do.
    """

    name: str
    type: str
    origin: str
    half_floats: bool
    environment: Mapping[str, str] = field(repr=False, hash=False)
    passed_over: tuple[str, ...] = ()

    @property
    def software(self) -> bool:
        """Whether it is no GPU but a processor doing a GPU's work."""
        return self.type.startswith("CPU")


@dataclass(frozen=True)
class Driver:
    """A driver that might do: where it comes from, and the environment that selects it."""

    origin: str
    environment: Mapping[str, str]


@cache
def find() -> VulkanAdapter:
    """Return the first adapter on which the delegate works, setting SwiftShader up if it must.

    Tried in order: the driver the user names in VK_DRIVER_FILES or VK_ICD_FILENAMES (and then no other), the
    system's drivers if there is a GPU, SwiftShader. Raises NoDelegate with what was tried and what to
    install.
    """
    reasons: list[str] = []
    for driver in _drivers(reasons):
        try:
            found = probe(driver.environment)
        except NoDelegate as problem:
            reasons.append(f"{driver.origin}: {problem}")
        else:
            return VulkanAdapter(
                name=found.name,
                type=found.type,
                origin=driver.origin,
                half_floats=found.half_floats,
                environment=driver.environment,
                passed_over=tuple(reasons),
            )
    raise NoDelegate(
        f"no Vulkan adapter here carries the GPU delegate (tried: {'; '.join(reasons)}); install your GPU's "
        "Vulkan driver, or Debian's chromium-common package, which brings SwiftShader"
    )


def _drivers(reasons: list[str]) -> Iterator[Driver]:
    """Yield the drivers to try, adding to `reasons` why one cannot be tried."""
    for describe in (_named,) if _user_names_one() else (_system, _software):
        try:
            driver = describe()
        except NoDelegate as problem:
            reasons.append(str(problem))
        else:
            if driver:
                yield driver


def _user_names_one() -> str | None:
    return next((name for name in NAMED if os.environ.get(name)), None)


def _named() -> Driver:
    return Driver(f"the driver named by {_user_names_one()}", _library_path())


def _system() -> Driver | None:
    files = _system_icds()
    if not files or not _gpus():
        return None
    return Driver(
        "the system's Vulkan driver", {"VK_ICD_FILENAMES": os.pathsep.join(files), **_library_path()}
    )


def _software() -> Driver:
    software = swiftshader.locate() or swiftshader.install()
    return Driver(
        software.origin, {"VK_ICD_FILENAMES": str(software.folder / swiftshader.ICD), **_library_path()}
    )


def _system_icds() -> list[str]:
    """Return the files by which installed drivers name themselves, but those of Mesa's software driver."""
    files = (file for folder in ICD_FOLDERS for file in sorted(Path(folder).glob("*.json")))
    return [str(file) for file in files if not file.name.startswith("lvp")]


def _gpus() -> list[Path]:
    return [device for pattern in DEVICES for device in Path("/dev").glob(pattern)]


def _library_path() -> dict[str, str]:
    """Return a library path with Vulkan's loader and NVIDIA's libraries on it; raises NoDelegate."""
    folders = [os.environ.get("LD_LIBRARY_PATH", "")]
    if (NVIDIA / "lib64").is_dir():
        folders.append(str(NVIDIA / "lib64"))
    if ctypes.util.find_library("vulkan") is None:
        folders.append(str((swiftshader.locate() or swiftshader.install()).folder))
    return {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, folders))}
