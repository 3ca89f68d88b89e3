"""What the bars of a long command say of the time that is left."""

from __future__ import annotations

import re
from contextlib import suppress
from io import StringIO

import pytest
from rich.console import Console
from rich.progress import MofNCompleteColumn, TextColumn

from msd.cli import distill
from msd.cli.progress import bars, component_progress, conversion_progress
from msd.errors import BadModelFile


@pytest.mark.parametrize(
    ("sheets", "beside"),
    [(0, ""), (1, ", without the images of 1 sheet"), (8, ", without the images of 8 sheets")],
)
def test_the_speed_of_the_first_updates_tells_how_long_all_stages_take(
    sheets: int, beside: str, capsys: pytest.CaptureFixture[str]
) -> None:
    distill._say_duration(7200, sheets, 2.0)
    assert capsys.readouterr().err == f"2.00 updates/s: the 7200 of all stages take 60 min{beside}\n"


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
            now[0] += 100.0
    last = shown.getvalue().splitlines()[-1]
    assert "unet" in last
    assert "4/20" in last
    assert "0:26:40" in last  # 16 of 20 at 100 s each


def test_bars_shrink_before_what_they_say_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = StringIO()
    monkeypatch.setattr("msd.cli.command.console", lambda *_, **__: Console(file=shown, width=80))
    with component_progress() as on_progress:
        on_progress("guidance", "loss 2.77e-05, 12.07/s, 11.0 GB", 400, 4000)
    with conversion_progress([]) as on_progress:
        on_progress("controlnet_canny", "writing", 4_000_000, 40_000_000)
    trained, written = (" ".join(line.split()) for line in shown.getvalue().splitlines())
    assert re.fullmatch(
        r"guidance [━╺╸]+ 400/4000 0:00:00 -:--:-- loss 2\.77e-05, 12\.07/s, 11\.0 GB", trained
    )
    assert re.fullmatch(r"controlnet_canny [━╺╸]+ done 0:00:00 4\.0 of 40\.0 MB", written)


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
