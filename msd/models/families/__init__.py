"""Families describe the kinds of models and their components, one file each; every module here is searched.

`docs/adding-a-network.md` shows how to add a network to a family, and a family.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from msd.models.families.control import CONTROLNET, PREFIX
from msd.models.families.family import Architecture, Component, Family, Part

FIRST = "stable-diffusion"
"""The family of bundles whose manifest names none."""

__all__ = [
    "FIRST",
    "Architecture",
    "Component",
    "Family",
    "Part",
    "by_pipeline",
    "component_names",
    "families",
    "file_names",
    "find_family",
    "is_file",
    "optional_names",
    "place_of",
    "title_of",
]


def families() -> dict[str, Family]:
    """Return every family by its name, in their modules' order; raises ImportError where two share a name."""
    by_name: dict[str, Family] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        contents = vars(importlib.import_module(f"{__name__}.{module}")).values()
        for family in (value for value in contents if isinstance(value, Family)):
            if by_name.setdefault(family.name, family) is not family:
                raise ImportError(f"two families are called {family.name}; one is in {module}.py")
    return by_name


def find_family(name: str) -> Family:
    """Return the family of that name; raises KeyError for a name that no family has."""
    return families()[name]


def by_pipeline() -> dict[str, Family]:
    """Return the family of each pipeline of diffusers that is supported, by the name of its class."""
    return {pipeline: family for family in families().values() for pipeline in family.pipelines}


def component_names() -> tuple[str, ...]:
    """Return the names of the components of all families, each once."""
    return _each_once(name for family in families().values() for name in family.names)


def optional_names() -> tuple[str, ...]:
    """Return the names of the optional components of all families, each once."""
    every = (component for family in families().values() for component in family.components)
    return _each_once(component.name for component in every if component.optional)


def file_names() -> tuple[str, ...]:
    """Return the names that files of all families can have, without their ending, each once."""
    return _each_once(name for family in families().values() for name in family.files)


def is_file(name: str) -> bool:
    """Return whether a file of any family, or of a ControlNet, has that name without its ending."""
    return name in file_names() or name.startswith(PREFIX)


def place_of(file: str) -> tuple[int, bool, str]:
    """Return what sorts files into the order in which they run, ControlNets before every denoiser."""
    names = file_names()
    if file.startswith(PREFIX):
        first = min(names.index(family.denoiser.files[0]) for family in families().values())
        return first, False, file
    return names.index(file), True, file


def title_of(file: str) -> str:
    """Return the title of a file or component of any family: "U-Net" for "unet"."""
    for family in families().values():
        if file in family.files:
            component = family.component_of(file)
            if file == component.first_half:
                return f"{component.title}, first half"
            return component.title if file == component.name else file.replace("_", " ")
    return f"{CONTROLNET.title} {file.removeprefix(PREFIX)}" if file.startswith(PREFIX) else file


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
