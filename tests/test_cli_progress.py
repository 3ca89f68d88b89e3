"""What the bars of a long command say of the time that is left."""

from __future__ import annotations

from contextlib import suppress
from io import StringIO

import pytest
from rich.console import Console
from rich.progress import MofNCompleteColumn, TextColumn

from msd.cli import distill
from msd.cli.progress import bars, component_progress
from msd.errors import BadModelFile
from msd.train.distill.training import TrainingProgress


def progress(update: int, updates: int, speed: float) -> TrainingProgress:
    return TrainingProgress("halve", update, updates, 0.5, 1e-5, 1.0, speed, 0)


def test_a_stage_has_its_remaining_updates_at_the_measured_speed_left() -> None:
    assert progress(30, 120, 0.25).seconds_left == 360
    assert progress(120, 120, 0.25).seconds_left == 0


def test_the_speed_of_the_first_updates_tells_how_long_all_stages_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    distill._say_duration(7200, 2.0)
    assert capsys.readouterr().err == "2.00 updates/s: the 7200 of all stages take 60 min\n"


@pytest.mark.parametrize(
    ("seconds", "text"), [(89.4, "89 s"), (90, "2 min"), (5399, "90 min"), (9000, "2.5 h")]
)
def test_a_duration_has_the_unit_that_one_thinks_in(seconds: float, text: str) -> None:
    assert distill._duration(seconds) == text


def test_a_bar_estimates_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now, shown = [0.0], StringIO()
    console = Console(file=shown, width=100, get_time=lambda: now[0])
    monkeypatch.setattr("msd.cli.command.console", lambda *arguments, **options: console)
    with component_progress() as on_progress:
        for done in range(5):
            on_progress("unet", "blocks", done, 20)
            now[0] += 10.0
    last = shown.getvalue().splitlines()[-1]
    assert "unet" in last
    assert "4/20" in last
    assert "0:02:40" in last  # 16 of 20 at 10 s each


@pytest.mark.parametrize(
    ("what", "done", "total", "said"),
    [
        ("text_encoder: writing", 1_570_254, 1_570_254, " 1.6 of 1.6 MB "),
        ("generating", 3, 8, " 3/8 "),
        ("writing", 1, 2, " 1/2 "),
    ],
)
def test_a_bar_counts_bytes_in_megabytes(
    what: str, done: int, total: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = StringIO()
    monkeypatch.setattr("msd.cli.command.console", lambda *_, **__: Console(file=shown, width=80))
    with component_progress() as on_progress:
        on_progress("converting", what, done, total)
    assert said in shown.getvalue()
    assert "…" not in shown.getvalue()


@pytest.mark.parametrize(
    ("done", "transient", "lines"),
    [((), False, 0), ((0,), False, 0), ((0, 3), False, 1), ((0, 3), True, 0)],
)
def test_a_file_has_the_bars_once_and_no_line_without(
    done: tuple[int, ...], transient: bool, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = TextColumn("{task.description}"), MofNCompleteColumn()
    with suppress(BadModelFile), bars(*columns, transient=transient) as shown:
        for each in done:
            shown.update("unet", each, 4)
        raise BadModelFile("a bad file")
    assert capsys.readouterr().err == "unet 3/4\n" * lines
