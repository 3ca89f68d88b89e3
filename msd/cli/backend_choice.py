"""The options of commands that run files: which backend, and what a backend asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from msd.errors import BadConfig
from msd.runners.backend import Backend, BackendOption
from msd.runners.registry import backends, find_backend

KINDS: Mapping[type, click.ParamType[Any]] = {
    Path: click.Path(path_type=Path, dir_okay=False),
    str: click.STRING,
    float: click.FloatRange(0),
}


class BackendChoice(click.Choice[str]):
    """One of some backends, by its name or its alias; its value is the spelling that help shows."""

    def __init__(self, among: Iterable[Backend], by_alias: bool) -> None:
        self.by_alias = by_alias
        super().__init__([self._shown(backend) for backend in among])

    def _shown(self, backend: Backend) -> str:
        return backend.spelling if self.by_alias else backend.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the spelling that help shows; fails for what is no backend, or none of these."""
        with suppress(BadConfig):  # click says which there are
            value = self._shown(find_backend(value))
        return super().convert(value, param, ctx)


GENERATING = BackendChoice((b for b in backends().values() if b.open), by_alias=True)
"""The backends that can generate images."""

MEASURING = BackendChoice(backends().values(), by_alias=False)
"""All backends: each can be measured."""


def options_of_backends(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add to a command the options that only one backend has."""
    for backend in reversed(backends().values()):
        for option in reversed(backend.options):
            command = _added(command, backend, option)
    return command


def chosen_options(names: Iterable[str], values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the values of each backend's own options; raises UsageError where one is needed and missing."""
    chosen = {}
    for backend in map(find_backend, names):
        chosen[backend.name] = {option.name: values[_key(backend, option)] for option in backend.options}
        for option in backend.options:
            if option.needed and not chosen[backend.name][option.name]:
                raise click.UsageError(f"--backend {backend.name} needs {option.flag}, {option.needed}.")
    return chosen


def _key(backend: Backend, option: BackendOption) -> str:
    return f"{backend.name}_{option.name}".replace("-", "_")


def _added(command: Callable[..., Any], backend: Backend, option: BackendOption) -> Callable[..., Any]:
    words = f"{backend.name}: {option.help}"
    names, default = (option.flag, _key(backend, option)), option.default
    if option.kind is bool:
        return click.option(*names, is_flag=True, default=default, help=words)(command)
    kind, shown = KINDS[option.kind], default is not None
    return click.option(*names, type=kind, default=default, show_default=shown, help=words)(command)
