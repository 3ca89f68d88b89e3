"""Progress bars on stderr, one for each component, file or task."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msd.cli.plain import escape

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

TRACING = (
    "TensorFlow traces the networks, since their size does not come with msd: from half a minute to several;"
    " the next conversion to this size finds them in the cache"
)
"""Said once, before the first network is traced."""
SPEED_SECONDS = 600.0
"""How far back the time left is estimated from: a step at full size may take minutes."""


class Bars:
    """A bar for each name, in the order of their first updates."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, Any] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all bars."""
        return tuple(self._tasks)

    def update(self, name: str, done: float | None = None, total: float | None = None, **shown: Any) -> None:
        """Show how much of `name` is done, None for as much as before; `shown` are fields of the columns."""
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(escape(name), total=total, **shown)
        self._progress.update(self._tasks[name], completed=done, total=total, **shown)

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        self._progress.console.print(escape(text), soft_wrap=True)


@contextmanager
def bars(*columns: ProgressColumn, console: Console | None = None, transient: bool = False) -> Iterator[Bars]:
    """Show bars with these columns on stderr while the `with` block runs.

    Without a terminal they are printed once, at the end: none where nothing was done, or `transient` ones.
    """
    from rich.progress import Progress

    from msd.cli.command import console as new_console

    console = console or new_console(0, stderr=True)
    progress = Progress(*columns, console=console, transient=transient, speed_estimate_period=SPEED_SECONDS)
    if console.is_interactive:
        with progress:
            yield Bars(progress)
        return
    try:
        yield Bars(progress)
    finally:
        if not transient and any(task.completed for task in progress.tasks):
            console.print(progress)


@contextmanager
def component_progress() -> Iterator[Callable[[str, str, int, int], None]]:
    """Show the activity of each component, how much of it is done, the time that took, and the time left."""
    from rich.progress import BarColumn, TextColumn

    name, what = TextColumn("{task.description:<14}"), TextColumn("{task.fields[what]}")
    with bars(name, BarColumn(24), TextColumn("{task.fields[count]}"), *_times(), what) as shown:

        def on_progress(component: str, what: str, done: int, total: int) -> None:
            shown.update(component, done, total, what=what, count=_count(what, done, total))

        yield on_progress


def _times() -> tuple[ProgressColumn, ProgressColumn]:
    """Return the columns of the time that has passed and of the time left, which keep their width."""
    from rich.progress import TimeElapsedColumn, TimeRemainingColumn
    from rich.table import Column

    whole = Column(no_wrap=True)
    return TimeElapsedColumn(table_column=whole), TimeRemainingColumn(table_column=whole)


def _count(what: str, done: int, total: int) -> str:
    """Return how much is done: bytes while one of several conversions writes, else a number of things."""
    return _written(done, total, 0) if what.endswith(": writing") else f"{done}/{total}"


@contextmanager
def conversion_progress(converted: list[str]) -> Iterator[Callable[[str, str, int, int], None]]:
    """Show the activity of each component, how many of its bytes are written, and how many a second.

    `converted` gets the names of all components that are. The first trace is announced: it takes a while.
    """
    from rich.progress import BarColumn, TextColumn

    elapsed, _ = _times()
    name, what = TextColumn("{task.description:<14}"), TextColumn("{task.fields[what]:<10}")
    written, begun, seen = TextColumn("{task.fields[written]}"), dict[str, float](), set[str]()
    with bars(name, BarColumn(24), what, elapsed, written) as shown:

        def on_progress(component: str, what: str, done: int, total: int) -> None:
            if what == "writing":
                now = time.perf_counter()
                seconds = now - begun.setdefault(component, now)
                shown.update(component, done, total, what=what, written=_written(done, total, seconds))
            else:
                if what == "tracing" and "tracing" not in seen:
                    shown.say(TRACING)
                seen.add(what)
                shown.update(component, what=what, written="")

        yield on_progress
        for component in shown.names:
            shown.update(component, what="done")
        converted += shown.names


def _written(done: int, total: int, seconds: float) -> str:
    """Return bytes and, since the first of them, bytes a second, in MB."""
    rate = f", {done / 1e6 / seconds:.0f} MB/s" if seconds else ""
    return f"{done / 1e6:.1f} of {total / 1e6:.1f} MB{rate}"


@contextmanager
def copy_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show the bytes of each file that are copied."""
    from rich.progress import BarColumn, DownloadColumn, TextColumn

    with bars(TextColumn("{task.description:<22}"), BarColumn(), DownloadColumn()) as shown:
        yield shown.update


@contextmanager
def step_progress() -> Iterator[Callable[[int, int, float], None]]:
    """Show how many of the denoiser's runs are done, and the seconds that the last one took."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    name, seconds_per_run = TextColumn("denoising"), TextColumn("{task.fields[seconds]:.2f} s/run")
    with bars(name, BarColumn(), MofNCompleteColumn(), seconds_per_run) as shown:
        shown.update("denoising", seconds=0.0)

        def on_step(done: int, total: int, seconds: float) -> None:
            shown.update("denoising", done, total, seconds=seconds)

        yield on_step


@contextmanager
def column_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show how many denoising steps of each column's images are done, and how long it takes."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    name = TextColumn("{task.description:<14}")
    with bars(name, BarColumn(), MofNCompleteColumn(), *_times()) as shown:
        yield shown.update


@contextmanager
def benchmark_progress(console: Console) -> Iterator[Callable[[str, float], None]]:
    """Show the measurement in progress, and the part of all measurements that is done."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    what = TextColumn("{task.fields[what]}", markup=False)
    with bars(BarColumn(20), TimeElapsedColumn(), what, console=console, transient=True) as shown:
        shown.update("benchmark", total=1.0, what="")

        def on_progress(what: str, part: float) -> None:
            shown.update("benchmark", part, 1.0, what=what)

        yield on_progress
