"""All backends: the modules of msd/run/runners/backends/."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from msd.errors import BadConfig
from msd.run.runners import backends as folder
from msd.run.runners.backend import Backend


@cache
def backends() -> dict[str, Backend]:
    """Return the backends by name, in the order of their files; those that only measure come last."""
    names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__))
    loaded: list[Backend] = [import_module(f"{folder.__name__}.{name}").BACKEND for name in names]
    return {backend.name: backend for backend in sorted(loaded, key=lambda backend: backend.open is None)}


def find_backend(name: str, generating: bool = False) -> Backend:
    """Return the backend of that name or alias; raises BadConfig listing the names.

    With `generating`, those that only measure are unknown, the names are those of `msd generate`, and
    BadConfig is raised too where the backend's package is not installed.
    """
    known = [backend for backend in backends().values() if backend.open or not generating]
    for backend in known:
        if name in (backend.name, backend.alias):
            if generating:
                backend.require_package()
            return backend
    names = ", ".join(backend.spelling if generating else backend.name for backend in known)
    raise BadConfig(f"no backend is called {name!r}; there are {names}")
