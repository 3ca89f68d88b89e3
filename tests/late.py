"""Packages that take seconds to import, imported when something of theirs is first used.

Each worker imports all test files to know their tests, and runs a part of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import diffusers
    import transformers

__all__ = ["diffusers", "transformers"]


class Late:
    """A package that is not imported before one of its names is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest asks each name of a module whether it is a fixture
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


if not TYPE_CHECKING:
    diffusers, transformers = Late("diffusers"), Late("transformers")
