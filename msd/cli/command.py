"""The parts that all commands share: exit codes, a user's error in one line on stderr, consoles.

Exit code 0: done. 1: a `Failure`, with its reason. 2: wrong usage, click's own, or a `BadValue`.
3: `CHECK_FAILED`. 130 and 143: stopped by Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from msd.cli.plain import plain, plain_lines
from msd.cli.streams import open_streams, print_everything
from msd.cli.suggestions import with_nearest
from msd.errors import BadValue, MsdError
from msd.files.nearest import nearest
from msd.files.unwritable import is_full

if TYPE_CHECKING:
    from rich.console import Console

CHECK_FAILED = 3
"""The exit code of a command whose check fails."""


class Failure(click.ClickException):
    """Ends a command with "error: …" on stderr and exit code 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message on stderr, or to `file`."""
        click.echo(f"error: {plain(self.format_message())}", file=file or sys.stderr)


@contextmanager
def _plain_usage() -> Iterator[None]:
    """Make the message of a usage error one line; the help that stands for missing arguments stays."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        vars(error)["message"] = with_nearest(plain(error.message))
        raise


@contextmanager
def _sigterm_exits() -> Iterator[None]:
    """Make SIGTERM raise SystemExit in the main thread while the block runs, so that it cleans up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


class PlainUsage(click.Command):
    """A command whose messages on wrong usage repeat what was typed in one line, however long."""

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        """Parse the arguments; raises click.UsageError."""
        open_streams()
        print_everything()
        with _plain_usage():
            return super().make_context(*args, **settings)


class Command(PlainUsage):
    """A command whose function may raise MsdError; use as `@click.command(cls=Command)`.

    `groups` are titles and the names of their options in --help, which lists the others last.
    """

    def __init__(
        self, *args: Any, groups: Mapping[str, Sequence[str]] | None = None, **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self._groups = groups or {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options for --help, in groups where there are any."""
        if not self._groups:
            super().format_options(ctx, formatter)
            return
        shown = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        records = {str(each.name): each.get_help_record(ctx) for each in shown}
        records["help"] = records.pop("_click_default_help", None)
        grouped = {name for names in self._groups.values() for name in names}
        rest = [name for name in records if name not in grouped]
        for title, names in {**self._groups, "Expert": rest}.items():
            with formatter.section(title):
                formatter.write_dl([record for name in names if (record := records[name])])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; an MsdError on what an option says becomes a click.UsageError."""
        try:
            return super().parse_args(ctx, args)
        except MsdError as error:
            raise click.UsageError(str(error), ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn an MsdError, OSError or MemoryError into a `Failure`, signals into exits."""
        try:
            _require_working_folder()
            from msd.conversion.damage import damage_named

            with _sigterm_exits(), damage_named(_paths(ctx)):
                result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            click.echo("\ninterrupted", err=True)
            sys.exit(128 + signal.SIGINT)
        except BadValue as error:
            raise click.UsageError(plain(str(error)), ctx) from error
        except MsdError as error:
            raise Failure(str(error)) from error
        except OSError as problem:
            if problem.errno == errno.EPIPE:  # click ends quietly where nobody reads
                raise
            raise Failure(_sentence(problem)) from problem
        except MemoryError as problem:
            short = f" ({problem})" if str(problem) else ""
            raise Failure(
                f"there is too little memory{short}: end other programs, or take smaller or fewer images"
            ) from problem


class LazyGroup(PlainUsage, click.Group):
    """A group that imports a command only when it is run: `lazy` maps a name to its place and its help."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of `lazy`."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, importing it now; None if there is none of that name."""
        if cmd_name not in self._lazy:
            return None
        module, _, name = self._lazy[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name; raises click.UsageError."""
        with _plain_usage():
            if (name := args[0]) not in self._lazy and not name.startswith("-"):
                ctx.fail(f"No such command {name!r}{nearest(name, self._lazy) or '.'}")
            return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for --help without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in self._lazy.items()])


def _paths(ctx: click.Context) -> list[Path]:
    """Return the places that the arguments of a command name."""
    values = [value if isinstance(value, tuple) else (value,) for value in ctx.params.values()]
    return [place for value in values for place in value if isinstance(place, Path)]


def _require_working_folder() -> None:
    """Raise `Failure` in a folder that has been deleted: what is relative to it leads nowhere."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise Failure("the working folder has been deleted; change to another folder and run again") from None


def _sentence(problem: OSError) -> str:
    """Return what went wrong with a file; one that is open already has no name: mostly it is stdout."""
    reason = os.strerror(errno.ENOSPC) if is_full(problem) else problem.strerror or problem
    if problem.filename is None:
        return f"stdout, or a temporary file, cannot be written ({reason})"
    return f"{problem.filename} cannot be used ({problem.strerror})"


def command_line() -> str:
    """Return the command as it was typed."""
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])


def console(width: int, stderr: bool = False) -> Console:
    """Return a console for tables, without a terminal at least `width` columns wide unless COLUMNS is set."""
    from rich.console import Console
    from rich.text import Text

    class PlainConsole(Console):
        """A console on which no text acts as a control sequence."""

        def render_str(self, text: str, **settings: Any) -> Text:
            return super().render_str(plain_lines(text), **settings)

    result = PlainConsole(stderr=stderr, highlight=False)
    if not result.is_terminal and "COLUMNS" not in os.environ:
        result.width = max(result.width, width)
    return result
