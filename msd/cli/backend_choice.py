"""The options of commands that run files: the backend, and the backend's own options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from msd.cli.options import DAY, Decorated, LateChoice, Number, refuse_given
from msd.cli.plain import say
from msd.errors import BadConfig
from msd.files.wording import listed

if TYPE_CHECKING:
    from msd.bundle import RunsOn
    from msd.run.runners.backend import Backend, BackendOption
    from msd.run.runners.engine import Engine

KINDS: Mapping[type, click.ParamType[Any]] = {
    Path: click.Path(path_type=Path, dir_okay=False),
    str: click.STRING,
    float: Number(0, DAY),
}


class BackendChoice(LateChoice):
    """One of the backends, by its name or its alias; its value is the spelling that --help shows.

    The registry is imported when a command is parsed: it loads NumPy, which `msd --help` does not need.
    """

    def __init__(self, generating: bool) -> None:
        super().__init__(self._spellings)
        self.generating = generating

    def _spellings(self) -> list[str]:
        """Return the aliases of the backends that generate images, or the names of all."""
        from msd.run.runners.registry import backends

        return [self._spelling(b) for b in backends().values() if b.open or not self.generating]

    def _spelling(self, backend: Backend) -> str:
        return backend.spelling if self.generating else backend.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the spelling that --help shows; fails for a name that no backend has."""
        from msd.run.runners.registry import find_backend

        with suppress(BadConfig):  # click lists the choices
            found = find_backend(value)
            if found.open or not self.generating:
                return self._spelling(found)
            value = self._spelling(found)
        return super().convert(value, param, ctx)


GENERATING = BackendChoice(generating=True)
"""The backends that can generate images."""

MEASURING = BackendChoice(generating=False)
"""All backends: each can be measured."""


def generating_backend(help: str = "Where the networks run.") -> Callable[[Decorated], Decorated]:
    """Return --backend, one that can generate images."""
    return click.option("--backend", type=GENERATING, default="cpu", show_default=True, help=help)


def options_of_backends(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add to a command the options that only one backend has."""
    from msd.run.runners.registry import backends

    for backend in reversed(backends().values()):
        for option in reversed(backend.options):
            command = _add_option(command, backend, option)
    return command


def chosen_options(names: Iterable[str], values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the values of each backend's own options; raises UsageError where one is needed and missing.

    Also where one is given for a backend that is not among `names`.
    """
    from msd.run.runners.registry import backends, find_backend

    options = {}
    chosen = [*map(find_backend, names)]
    for backend in backends().values():
        if backend not in chosen:
            keys = [_key(backend, option) for option in backend.options]
            refuse_given(keys, f"without --backend {backend.name}")
    for backend in chosen:
        options[backend.name] = {option.name: values[_key(backend, option)] for option in backend.options}
        for option in backend.options:
            if option.needed and not options[backend.name][option.name]:
                raise click.UsageError(f"--backend {backend.name} needs {option.flag}, {option.needed}.")
    return options


def say_adapter(engine: Engine) -> None:
    """Find the adapter of a backend for GPUs; say what was passed over, and that software plays a GPU.

    Raises what `Backend.prepare` raises.
    """
    found = engine.backend.prepare(engine.conditions).adapter
    if found is None:
        return
    for reason in found.passed_over:
        say(f"warning: passed over {reason}", err=True)
    if found.software:
        say(
            f"warning: no GPU that works was found: {found.name} runs in software, far slower than the CPU",
            err=True,
        )


def refuse_unused_conditions(names: Iterable[str], places: Collection[RunsOn] = ("gpu", "cpu")) -> None:
    """Raise UsageError where a condition, such as --threads, is given and nothing in `places` takes it."""
    from msd.run.runners.backend import CONDITIONS
    from msd.run.runners.registry import find_backend

    chosen = [*map(find_backend, names)]
    used = frozenset[str]().union(*(backend.on(place).takes for backend in chosen for place in places))
    unused = CONDITIONS - used
    refuse_given(sorted(unused), f"on {listed(backend.name for backend in chosen)}")


def _key(backend: Backend, option: BackendOption) -> str:
    return f"{backend.name}_{option.name}".replace("-", "_")


def _add_option(command: Callable[..., Any], backend: Backend, option: BackendOption) -> Callable[..., Any]:
    text = f"{backend.name}: {option.help}"
    names, default = (option.flag, _key(backend, option)), option.default
    if option.kind is bool:
        return click.option(*names, is_flag=True, default=default, help=text)(command)
    kind, show_default = KINDS[option.kind], default is not None
    return click.option(*names, type=kind, default=default, show_default=show_default, help=text)(command)
