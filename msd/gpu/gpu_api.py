"""The two implementations of WebGPU that a program may run on: wgpu-native and Dawn.

Dawn is Chromium's. Its package has experimental features that wgpu-native keeps from programs, and shader-f16
on NVIDIA, which needs a toggle there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from msd.errors import BadConfig

GpuApi = Literal["wgpu", "dawn"]

SYSTEM_APIS = ("Vulkan", "Metal", "DX12")
"""Where adapters are looked for. OpenGL's drivers bring a copy of LLVM into the process, which crashes when
TensorFlow is there too."""


@dataclass(frozen=True)
class Implementation:
    """A package with wgpu's interface: its title, the module of its `extras`, and how to install it.

    `spellings`: its names of features that it does not call as the standard does. `options`: arguments of
    `extras.set_instance_extras`.
    """

    title: str
    package: str
    extras: str
    install: str
    spellings: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def installed(self) -> bool:
        """Whether the package is there."""
        return find_spec(self.package) is not None


IMPLEMENTATIONS: dict[GpuApi, Implementation] = {
    "dawn": Implementation(
        title="Dawn",
        package="wgpudawn",
        extras="wgpudawn.backends.dawn.extras",
        install="pip install 'msd[dawn]'",
        options={
            "enable_toggles": ["allow_unsafe_apis", "vulkan_enable_f16_on_nvidia"],
            # In a browser, times are multiples of 0.1 ms, longer than most dispatches.
            "disable_toggles": ["timestamp_quantization"],
        },
    ),
    "wgpu": Implementation(
        title="wgpu-native",
        package="wgpu",
        extras="wgpu.backends.wgpu_native.extras",
        install="pip install 'msd[webgpu]'",
        spellings={"subgroups": "subgroup"},
    ),
}


def require_known_api(name: str | None) -> None:
    """Raise BadConfig for an unknown implementation; None is the choice of `choose_api`."""
    if name is not None and name not in IMPLEMENTATIONS:
        raise BadConfig(f"the GPU API is {name!r}; it should be dawn or wgpu")


def usable_apis(wanted: GpuApi | None = None) -> tuple[GpuApi, ...]:
    """Return the implementation that is wanted, else those that are installed, Dawn before wgpu-native.

    Raises BadConfig for an unknown one, and where its package, or every one, is not installed.
    """
    require_known_api(wanted)
    installed = tuple(name for name, each in IMPLEMENTATIONS.items() if each.installed)
    if wanted in installed or (wanted is None and installed):
        return (wanted,) if wanted else installed
    name: GpuApi = wanted or "wgpu"
    each = IMPLEMENTATIONS[name]
    raise BadConfig(
        f"the package {each.package} is not installed; the backend webgpu needs it for the GPU API "
        f"{name}: {each.install}"
    )


def choose_api(wanted: GpuApi | None = None) -> GpuApi:
    """Return the first of `usable_apis`, and raise what it raises."""
    return usable_apis(wanted)[0]


@cache
def load_api(name: GpuApi) -> tuple[Any, Any]:
    """Return the package of an implementation that is installed, and its extras, set up for the process."""
    each = IMPLEMENTATIONS[name]
    package, extras = import_module(each.package), import_module(each.extras)
    extras.set_instance_extras(backends=SYSTEM_APIS, **each.options)
    return package, extras
