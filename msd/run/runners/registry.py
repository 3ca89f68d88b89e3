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
    loaded = map(_backend_of, _modules())
    return {backend.name: backend for backend in sorted(loaded, key=lambda backend: backend.open is None)}


def find_backend(name: str, generating: bool = False) -> Backend:
    """Return the backend of that name or alias; raises BadConfig listing the names.

    With `generating`, those that only measure are unknown, the names are those of `msd generate`, and
    BadConfig is raised too where the backend's package is not installed.
    """
    module = name.replace("-", "_")
    # Its own module alone is imported where it has the name: processes that start ahead wait for that.
    candidates = [_backend_of(module)] if module in _modules() else [*backends().values()]
    for backend in candidates:
        if name in (backend.name, backend.alias) and (backend.open or not generating):
            if generating:
                backend.require_package()
            return backend
    known = [backend for backend in backends().values() if backend.open or not generating]
    names = ", ".join(backend.spelling if generating else backend.name for backend in known)
    raise BadConfig(f"no backend is called {name!r}; there are {names}")


def _modules() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(folder.__path__))


def _backend_of(module: str) -> Backend:
    backend: Backend = import_module(f"{folder.__name__}.{module}").BACKEND
    return backend
