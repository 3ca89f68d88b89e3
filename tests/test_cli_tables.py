"""Tables keep every word: as wide as the terminal, or stacked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from msd.cli import msd
from msd.cli.command import console
from msd.cli.tables import print_table
from tests import tiny_models

CELLS = st.lists(st.text("abcdefgh_.", min_size=1, max_size=30), min_size=0, max_size=3).map(" ".join)


def lines(table: Table, width: int) -> list[str]:
    out = console(0)
    out.width = width
    with out.capture() as captured:
        print_table(out, table)
    return captured.get().splitlines()


@given(st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), min_size=1, max_size=4), st.booleans())
def test_no_word_is_cut(rows: list[tuple[str, str, str, str]], fixed: bool) -> None:
    table = Table("file", box=None, padding=(0, 2, 0, 0))
    for title in ("before", "after", "why"):
        table.add_column(title, no_wrap=fixed)
    for row in rows:
        table.add_row(*row)
    shown = lines(table, 80)
    assert max(map(len, shown)) <= 80
    words = Counter(re.split(r"[\s:]+", " ".join(shown)))
    assert not Counter(" ".join(cell for row in rows for cell in row).split()) - words


def test_a_wide_table_stacks() -> None:
    table = Table("", "file", "predicted")
    table.add_row("✔", "unet_with_a_long_name.tflite", "2015 of 2015 on GPU, 1 partition")
    assert len(lines(table, 120)) > 2
    assert [line.rstrip() for line in lines(table, 30)] == [
        "✔ unet_with_a_long_name.tflite",
        "    predicted: 2015 of 2015 on",
        "    GPU, 1 partition",
    ]


VIEWS = {
    "predictions": ["report", "MODEL", "--no-run", "-v", "--delegate", "litert-gpu,tflite-gpu"],
    "verdicts": ["report", "MODEL", "-v"],
    "bench": ["bench", "DEMO", "--backend", "litert-cpu", "--draw", "0", "--min-seconds", "0.1"],
    "blocks": ["blocks", "DEMO", "--reference", "FLOAT", "--component", "text_encoder", "--steps", "2"],
    "explain": ["convert", "-o", "NEW", "--explain", "--component", "text_encoder"],
    "kernels": ["kernels", "DEMO", "--component", "text_encoder", "--repeats", "1"],
}


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_fits_80_columns(
    view: str, demo: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines are as long as the terminal is wide, and no table has an ellipsis."""
    monkeypatch.setenv("COLUMNS", "80")
    model = tiny_models.save("five_dimensions", tmp_path)
    places = {"MODEL": model, "DEMO": demo("gpu-w8"), "FLOAT": demo("float32"), "NEW": tmp_path / "new"}
    result = CliRunner().invoke(msd, [str(places.get(word, word)) for word in VIEWS[view]])
    assert result.exit_code in (0, 3), result.output
    tables = result.stdout.partition("native log:")[0]
    assert "…" not in tables
    wide = [line for line in tables.splitlines() if len(line) > 80 and " " in line.strip()]
    assert not [line for line in wide if not re.match(r"/|Driver: |five_dim|\S+\.tflite: ", line)]
